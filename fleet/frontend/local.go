package frontend

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/store/tsblock"
)

// A Local provides the active series of this process.
type Local interface {
	// ActiveSeries returns the series for which keep returns true. Labels passed to keep, and yielded labels,
	// are valid until the next ones. A slow consumer must not block anything but its own request.
	ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

// A ShardedLocal is a Local that knows the hashes of its series, so that a shard can skip the series of the
// others.
type ShardedLocal interface {
	Local

	// ActiveShard returns ActiveSeries restricted to series whose labels.StableHash is in the shard.
	ActiveShard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

// NewLocal returns a Frontend whose only system is this process: it serves the series of l with all features
// of a frontend, so that other frontends can have it as a member. The options must not have Downstreams,
// Members or Transport; Shards is required only to split requests that do not specify a number of shards.
func NewLocal(l Local, o Options) (*Frontend, error) {
	if len(o.Downstreams)+len(o.Members) > 0 || o.Transport != nil {
		return nil, errors.New("a frontend of this process' series has no downstreams")
	}
	o.Downstreams = []*url.URL{{Scheme: "http", Host: "local"}}
	o.Shards = max(o.Shards, 1)
	o.Transport = localTransport{l}
	return New(o)
}

// A localTransport responds to a Frontend's requests for shards.
type localTransport struct{ local Local }

// RoundTrip implements http.RoundTripper.
func (t localTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, string(seriesEndpoint)) {
		return refusal(r, http.StatusNotImplemented, "only active_series is answered here"), nil
	}
	if err := r.ParseForm(); err != nil { // the body is a string reader, so nothing is closed
		return nil, fmt.Errorf("read the form: %w", err)
	}
	s, err := parseSelector(r.Form.Get("selector"))
	if err != nil {
		return nil, err
	}
	shard, matchers, err := tsblock.TakeShard(s.matchers)
	if err != nil {
		return refusal(r, http.StatusBadRequest, err.Error()), nil
	}
	keep := func(ls labels.Labels) bool {
		for _, m := range matchers {
			if !m.Matches(ls.Get(m.Name)) {
				return false
			}
		}
		return true
	}
	body := &localBody{rest: []byte(`{"data":[`)}
	body.next, body.stop = iter.Pull(t.shard(shard, keep))
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: -1,
		Header: http.Header{"Content-Type": {jsonType}}, Body: body,
	}, nil
}

// shard returns the series of one shard.
func (t localTransport) shard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	if sharded, ok := t.local.(ShardedLocal); ok {
		return sharded.ActiveShard(shard, keep)
	}
	return t.local.ActiveSeries(func(ls labels.Labels) bool {
		return keep(ls) && (shard.All() || labels.StableHash(ls)%shard.Count == shard.Index)
	})
}

// refusal returns a response with an error status.
func refusal(r *http.Request, code int, text string) *http.Response {
	return &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}

// localBytes is the approximate size of the pieces in which a body is encoded.
const localBytes = 16 << 10

// A localBody is a body that is encoded as it is read.
type localBody struct {
	next func() (labels.Labels, bool)
	stop func()

	buffer []byte
	rest   []byte // encoded bytes that were not read yet
	items  int
	ended  bool
}

// Read implements io.Reader.
func (b *localBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		b.encode()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *localBody) encode() {
	b.buffer = b.buffer[:0]
	for len(b.buffer) < localBytes {
		ls, ok := b.next()
		if !ok {
			b.ended = true
			b.buffer = append(b.buffer, `]}`...)
			break
		}
		if b.items++; b.items > 1 {
			b.buffer = append(b.buffer, ',')
		}
		b.buffer = activeseries.AppendItem(b.buffer, pairs(ls))
	}
	b.rest = b.buffer
}

// pairs returns a series' names and values.
func pairs(ls labels.Labels) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		more := true
		ls.Range(func(l labels.Label) { more = more && yield(l.Name, l.Value) })
	}
}

// Close implements io.Closer.
func (b *localBody) Close() error {
	b.stop()
	b.ended, b.rest = true, nil
	return nil
}
