//go:build browser

package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a real Chromium that is told what to do over a pipe, in its DevTools
// protocol: messages of JSON, each ended by a zero byte.
type browser struct {
	t       testing.TB
	in      *os.File
	session string

	mu       sync.Mutex // protects what follows
	next     int
	waiting  map[int]chan devtools
	requests []string // every address that was asked for
	faults   []string // exceptions, and what the content policy refused
}

type devtools struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newBrowser starts Chromium with one empty page of that size.
func newBrowser(t testing.TB, width, height int) *browser {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium")
	}
	toRead, in, err := os.Pipe()
	require.NoError(t, err)
	out, toWrite, err := os.Pipe()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "quorate-browser")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, toWrite} // 3 and 4, as Chromium wants them
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	require.NoError(t, toRead.Close())
	require.NoError(t, toWrite.Close())
	b := &browser{t: t, in: in, waiting: map[int]chan devtools{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(out)
	}()
	t.Cleanup(func() {
		_ = b.send(devtools{Method: "Browser.close"}) // it may be gone already
		_ = cmd.Wait()
		_ = in.Close()
		_ = out.Close()
		<-done
		_ = os.RemoveAll(dir) // its children may still write for a moment
	})
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

func (b *browser) read(out *os.File) {
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 64<<20)
	sc.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for sc.Scan() {
		var m devtools
		if json.Unmarshal(sc.Bytes(), &m) != nil {
			continue
		}
		b.mu.Lock()
		if ch := b.waiting[m.ID]; m.ID > 0 && ch != nil {
			delete(b.waiting, m.ID)
			ch <- m
		}
		b.note(m)
		b.mu.Unlock()
	}
}

// note keeps what a test asks for at its end. b.mu is held.
func (b *browser) note(m devtools) {
	var p struct {
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
		ExceptionDetails struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
		Entry struct {
			Level, Text string
		} `json:"entry"`
	}
	_ = json.Unmarshal(m.Params, &p) // other events have other fields
	switch m.Method {
	case "Network.requestWillBeSent":
		b.requests = append(b.requests, p.Request.URL)
	case "Runtime.exceptionThrown":
		b.faults = append(b.faults, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if strings.Contains(p.Entry.Text, "Content Security Policy") {
			b.faults = append(b.faults, p.Entry.Text)
		}
	}
}

func (b *browser) send(m devtools) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = b.in.Write(append(data, 0))
	return err
}

// call sends a command and decodes what comes back, if result is not nil.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	data, err := json.Marshal(params)
	require.NoError(b.t, err)
	if params == nil {
		data = []byte("{}")
	}
	ch := make(chan devtools, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = ch
	err = b.send(devtools{ID: id, Method: method, Params: data, SessionID: b.session})
	b.mu.Unlock()
	require.NoError(b.t, err)
	select {
	case m := <-ch:
		require.Nil(b.t, m.Error, "%s: %+v", method, m.Error)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
	case <-time.After(20 * time.Second):
		require.FailNow(b.t, "the browser does not answer", method)
	}
}

// eval returns what a script makes of the page.
func (b *browser) eval(script string) any {
	b.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &r)
	require.Nil(b.t, r.ExceptionDetails, script)
	return r.Result.Value
}

// until waits for a script to be true.
func (b *browser) until(script, what string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.eval("!!("+script+")") == true }, 15*time.Second, 50*time.Millisecond, what)
}

// open loads a page and waits for its stream.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until(`location.href === "`+url+`" && document.readyState === "complete" && document.getElementById("live").textContent === "live"`, "the page is live: "+url)
}

// press types text where the focus is.
func (b *browser) press(text string) {
	b.t.Helper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}
