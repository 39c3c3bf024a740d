package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// h2Window is how much the server may send unasked, of a stream and of the
	// connection: a body of maxBody with room for what is not its content.
	h2Window = 2 * maxBody
	// h2Frames bounds the frames read for one response.
	h2Frames = 4096
)

// errUnprocessed is a server that says so about a request it has not looked at.
var errUnprocessed = errors.New("the server refused the request unseen")

// h2Conn speaks HTTP/2 for one request at a time, on the goroutine of the run: an
// idle one costs no goroutine. What the server says meanwhile is read with the next
// response.
type h2Conn struct {
	conn   io.ReadWriter
	in     bounded
	out    bytes.Buffer
	framer *http2.Framer // reads in, writes out
	stream uint32        // of the request under way; 0: none yet
	last   bool          // the server takes no more requests
	spent  uint32        // of the connection's window
}

func newH2(conn io.ReadWriter) *h2Conn {
	h := &h2Conn{conn: conn}
	h.in.from = conn
	h.framer = http2.NewFramer(&h.out, &h.in)
	h.framer.SetReuseFrames()
	h.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.framer.MaxHeaderListSize = maxHeader
	return h
}

// requestFields returns the pseudo-header fields of a request.
func requestFields(method, scheme, host, path string) []hpack.HeaderField {
	return []hpack.HeaderField{
		{Name: ":method", Value: method},
		{Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: host},
		{Name: ":path", Value: path},
	}
}

// headerBlock encodes fields so that the same bytes mean the same on every
// connection and every time: nothing is put into the dynamic table.
func headerBlock(fields []hpack.HeaderField) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range fields {
		f.Sensitive = true  // never indexed
		_ = e.WriteField(f) // a buffer takes everything
	}
	return b.Bytes()
}

// send sends a request in one write; block is made by headerBlock. A body must fit
// into the least window a server may start with.
func (h *h2Conn) send(block, body []byte) error {
	f := h.framer
	// Writes into a buffer do not fail.
	if h.stream == 0 {
		h.out.WriteString(http2.ClientPreface)
		_ = f.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: h2Window},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeader},
		)
		_ = f.WriteWindowUpdate(0, h2Window)
		h.stream = 1
	} else {
		h.stream += 2
		if h.spent > 0 {
			_ = f.WriteWindowUpdate(0, h.spent)
		}
	}
	h.spent = 0
	const most = 16 << 10 // RFC 9113 section 4.2: every server takes frames of this size
	first, rest := block[:min(most, len(block))], block[min(most, len(block)):]
	_ = f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: h.stream, BlockFragment: first, EndStream: body == nil, EndHeaders: len(rest) == 0,
	})
	for len(rest) > 0 {
		n := min(most, len(rest))
		_ = f.WriteContinuation(h.stream, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	if body != nil {
		_ = f.WriteData(h.stream, true, body)
	}
	h.in.left, h.in.over = maxHeader+maxFraming, errLongBody
	return h.flush()
}

func (h *h2Conn) flush() error {
	if h.out.Len() == 0 {
		return nil
	}
	_, err := h.conn.Write(h.out.Bytes())
	h.out.Reset()
	return err
}

// response reads the response up to its body.
func (h *h2Conn) response(req *httpRequest, rec *recorder) (*response, error) {
	rec.start("first byte")
	for range maxInterim {
		ev, err := h.next()
		if err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		if ev.headers == nil {
			return nil, errors.New("read response: data came before the header")
		}
		if ev.headers.Truncated {
			return nil, fmt.Errorf("read response: %w", errLongHeader)
		}
		code, err := strconv.Atoi(ev.headers.PseudoValue("status"))
		if err != nil || code < 100 || code > 999 {
			return nil, fmt.Errorf("read response: the status is %q", ev.headers.PseudoValue("status"))
		}
		if code < 200 && !ev.end {
			continue
		}
		if rec != nil {
			rec.ok(fmt.Sprintf("HTTP/2.0 %d %s", code, http.StatusText(code)))
		}
		resp := &response{proto: "HTTP/2.0", code: code, header: http.Header{}, trailer: http.Header{}, length: -1}
		addFields(resp.header, ev.headers)
		if n, err := strconv.ParseInt(resp.header.Get("Content-Length"), 10, 64); err == nil && req.method != http.MethodHead {
			resp.length = n
		}
		resp.body = &h2Body{h: h, resp: resp, ended: ev.end}
		return resp, nil
	}
	return nil, errors.New("read response: only interim responses came")
}

func addFields(header http.Header, frame *http2.MetaHeadersFrame) {
	for _, f := range frame.RegularFields() {
		header.Add(f.Name, f.Value)
	}
}

// h2Event is what came on the stream of the request.
type h2Event struct {
	headers *http2.MetaHeadersFrame // valid until the next
	data    []byte                  // likewise
	end     bool                    // of the stream
}

// next reads frames until one is for the request, and answers those that are for the
// connection.
func (h *h2Conn) next() (h2Event, error) {
	for range h2Frames {
		frame, err := h.framer.ReadFrame()
		if err != nil {
			return h2Event{}, h.explain(err)
		}
		mine := frame.Header().StreamID == h.stream
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if mine {
				return h2Event{headers: f, end: f.StreamEnded()}, nil
			}
		case *http2.DataFrame:
			h.spent += f.Length // with its padding (RFC 9113 section 6.9)
			if mine {
				return h2Event{data: f.Data(), end: f.StreamEnded()}, nil
			}
		case *http2.RSTStreamFrame:
			if mine {
				if f.ErrCode == http2.ErrCodeRefusedStream {
					return h2Event{}, fmt.Errorf("%w: %s", errUnprocessed, f.ErrCode)
				}
				return h2Event{}, fmt.Errorf("the server reset the request: %s", f.ErrCode)
			}
		case *http2.GoAwayFrame:
			h.last = true
			if f.LastStreamID < h.stream {
				return h2Event{}, fmt.Errorf("%w: %s", errUnprocessed, f.ErrCode)
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = h.framer.WriteSettingsAck() // into a buffer
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = h.framer.WritePing(true, f.Data) // into a buffer
			}
		case *http2.PushPromiseFrame:
			return h2Event{}, errors.New("the server pushed, which it was told not to")
		}
		if err := h.flush(); err != nil {
			return h2Event{}, err
		}
	}
	return h2Event{}, errors.New("the server sends frame after frame, none of them a response")
}

// explain says more of a framing error.
func (h *h2Conn) explain(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoResponse
	}
	if errors.Is(err, http2.ErrFrameTooLarge) {
		return errors.New("what came is not HTTP/2")
	}
	if detail := h.framer.ErrorDetail(); detail != nil {
		return fmt.Errorf("%w: %w", err, detail)
	}
	return err
}

// h2Body is the body of the response under way.
type h2Body struct {
	h      *h2Conn
	resp   *response
	unread []byte
	read   int64
	ended  bool
}

func (b *h2Body) Read(p []byte) (int, error) {
	for len(b.unread) == 0 {
		if b.ended {
			b.resp.last = b.h.last
			if b.resp.length >= 0 && b.read != b.resp.length {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, io.EOF
		}
		ev, err := b.h.next()
		if err != nil {
			return 0, noEOF(err)
		}
		if ev.headers != nil {
			addFields(b.resp.trailer, ev.headers)
		}
		b.unread, b.ended = ev.data, ev.end
	}
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	b.read += int64(n)
	return n, nil
}

// noEOF returns err, or a better one when the connection ended in the middle.
func noEOF(err error) error {
	if errors.Is(err, errNoResponse) {
		return io.ErrUnexpectedEOF
	}
	return err
}
