package geo

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
)

// maxFile is the longest file that is read: several times the largest city database.
const maxFile = 1 << 30

// Open reads a MaxMind-format file of countries or cities. The file is read once
// and closed: replacing or truncating it later changes nothing. The error names the
// file and what is wrong with it.
func Open(path string) (*Index, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("geoip database %s: %w", path, err)
	}
	x, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("geoip database %s: %w", path, err)
	}
	return x, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is said once
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("must be a file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("must have at most %d MiB, has %d", maxFile>>20, info.Size()>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// record is what is read of a network's data, in every layout that is understood.
// The fields at the top are those of ip-location-db.
type record struct {
	Country    country `maxminddb:"country"`
	Registered country `maxminddb:"registered_country"`
	Continent  struct {
		Code string `maxminddb:"code"`
	} `maxminddb:"continent"`
	Location struct {
		Latitude  *float64 `maxminddb:"latitude"`
		Longitude *float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`

	CountryCode   string   `maxminddb:"country_code"`
	ContinentCode string   `maxminddb:"continent_code"`
	Latitude      *float64 `maxminddb:"latitude"`
	Longitude     *float64 `maxminddb:"longitude"`
}

type country struct {
	ISOCode string `maxminddb:"iso_code"`
}

func (r record) place() Place {
	p := Place{Continent: first(r.Continent.Code, r.ContinentCode), Country: first(r.Country.ISOCode, r.CountryCode, r.Registered.ISOCode)}
	for _, c := range [][2]*float64{{r.Location.Latitude, r.Location.Longitude}, {r.Latitude, r.Longitude}} {
		if c[0] != nil && c[1] != nil {
			p.Latitude, p.Longitude, p.Located = *c[0], *c[1], true
			break
		}
	}
	return p.tidied()
}

func first(codes ...string) string {
	for _, c := range codes {
		if c != "" {
			return c
		}
	}
	return ""
}

// parse makes an index of a file's bytes. Whatever the bytes are, it ends in an
// index or an error.
func parse(data []byte) (x *Index, err error) {
	defer func() {
		if r := recover(); r != nil { // of the reader, over bytes that it did not expect
			x, err = nil, fmt.Errorf("is broken: %v", r)
		}
	}()
	db, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("is not a whole file in MaxMind's format: %w", err)
	}
	meta := db.Metadata
	if meta.BinaryFormatMajorVersion != 2 || (meta.IPVersion != 4 && meta.IPVersion != 6) {
		return nil, fmt.Errorf("must be of format version 2 for IPv4 or IPv6, is of version %d for IP version %d", meta.BinaryFormatMajorVersion, meta.IPVersion)
	}
	b := newBuilder(meta.BuildTime().UTC().Format(dateLayout))
	b.out.built = meta.BuildTime().UTC().Truncate(time.Second)
	known, err := b.addAll(db)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, fmt.Errorf("must hold countries or coordinates, is of type %q and holds neither", meta.DatabaseType)
	}
	return b.index(), nil
}

// addAll adds the networks of a file, and reports whether any has a place.
func (b *builder) addAll(db *maxminddb.Reader) (known bool, err error) {
	numbers := map[uintptr]uint32{} // places by where their record is in the file
	left := int(min(db.Metadata.NodeCount, maxFile)) + 1
	for r := range db.Networks(maxminddb.IncludeNetworksWithoutData()) {
		if err := r.Err(); err != nil {
			return false, fmt.Errorf("is broken: %w", err)
		}
		// A tree has one leaf more than nodes. A broken one that leads back into itself
		// would have more than anybody can walk.
		if left--; left < 0 {
			return false, fmt.Errorf("is broken: its tree of %d nodes leads back into itself", db.Metadata.NodeCount)
		}
		if !r.Found() {
			continue
		}
		n, ok := numbers[r.Offset()]
		if !ok {
			var rec record
			if err := r.Decode(&rec); err != nil {
				return false, fmt.Errorf("is broken, or of type %q that is not understood: %w", db.Metadata.DatabaseType, err)
			}
			n = b.number(rec.place())
			numbers[r.Offset()] = n
		}
		if b.out.places[n].unknown() {
			continue
		}
		known = true
		if err := b.add(unmapped(r.Prefix()), n); err != nil {
			return false, fmt.Errorf("is broken: %w", err)
		}
	}
	return known, nil
}

// unmapped returns a network of IPv4 addresses as one, where the file writes it as
// part of IPv6.
func unmapped(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
