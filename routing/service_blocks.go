package routing

import (
	"iter"
	"slices"

	"github.com/quorate/quorate/statestore"
)

// serviceBlocks are a table's services, by number. One that changes costs a copy of its
// block and not of all: tables share the others.
type serviceBlocks struct {
	blocks [][]entry
	ours   []bool // blocks that no other table shares
}

// entry is a service and the running side that it was made from.
type entry struct {
	*service
	run *statestore.ServiceState
}

const (
	blockBits = 7
	blockSize = 1 << blockBits
)

func makeBlocks(n int) serviceBlocks {
	s := serviceBlocks{}
	for ; n > 0; n -= blockSize {
		s.blocks, s.ours = append(s.blocks, make([]entry, min(n, blockSize))), append(s.ours, true)
	}
	return s
}

// share returns services that may be set without changing s.
func (s serviceBlocks) share() serviceBlocks {
	return serviceBlocks{blocks: slices.Clone(s.blocks), ours: make([]bool, len(s.blocks))}
}

func (s serviceBlocks) entry(i int) *entry { return &s.blocks[i>>blockBits][i&(blockSize-1)] }

func (s serviceBlocks) at(i int) *service { return s.entry(i).service }

func (s serviceBlocks) set(i int, e entry) {
	b := i >> blockBits
	if !s.ours[b] {
		s.blocks[b], s.ours[b] = slices.Clone(s.blocks[b]), true
	}
	s.blocks[b][i&(blockSize-1)] = e
}

// all yields the services in the order of their numbers.
func (s serviceBlocks) all() iter.Seq2[int, *service] {
	return func(yield func(int, *service) bool) {
		for b, block := range s.blocks {
			for k := range block {
				if !yield(b<<blockBits+k, block[k].service) {
					return
				}
			}
		}
	}
}
