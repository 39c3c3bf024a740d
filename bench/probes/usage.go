package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/PID/stat: USER_HZ, 100 on every Linux.
const clockTick = time.Second / 100

// usage is what a process has used.
type usage struct {
	cpu time.Duration // user and system
	rss int64         // bytes, now
}

// usageOf reads the usage of a process.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// proc(5): the name may hold anything; state is the first field after it, and
	// utime and stime the 12th and 13th.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const utime, stime, rss = 11, 12, 21
	if len(f) <= rss {
		return usage{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	var n [3]int64
	for i, at := range []int{utime, stime, rss} {
		if n[i], err = strconv.ParseInt(f[at], 10, 64); err != nil {
			return usage{}, err
		}
	}
	return usage{cpu: time.Duration(n[0]+n[1]) * clockTick, rss: n[2] * int64(os.Getpagesize())}, nil
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

func micros(d time.Duration) string {
	return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
}
