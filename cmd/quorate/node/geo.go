package node

import (
	"log/slog"
	"sync/atomic"

	"github.com/quorate/quorate/routing/geo"
)

// places keeps the index of the GeoIP file that node.yaml names. A file that does not
// read leaves the index that is in (G13).
type places struct {
	log     *slog.Logger
	index   atomic.Pointer[geo.Index]
	changed chan struct{} // holds one: another index is in
}

func newPlaces(log *slog.Logger) *places {
	return &places{log: log, changed: make(chan struct{}, 1)}
}

// read reads the file at path; without a path no place is known.
func (p *places) read(path string) error {
	var x *geo.Index
	if path != "" {
		var err error
		if x, err = geo.Open(path); err != nil {
			return err
		}
		p.log.Info("geoip file read", keyFile, path, keyBuild, x.Build(), keyNetworks, x.Len())
	}
	if was := p.index.Swap(x); was == x {
		return nil // neither then nor now
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return nil
}
