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

	"github.com/taredb/tare/activeseries"
	"github.com/taredb/tare/tsblock"
)

// A Local knows the active series of this process.
type Local interface {
	// ActiveSeries are those series that keep wants. The labels that keep is given, and those that are
	// yielded, are valid until the next ones. Series that are being yielded slowly
	// hold nothing up but their request.
	ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

// A ShardedLocal is a Local that knows the hashes of its series, so that a shard need not look at those
// of the others.
type ShardedLocal interface {
	Local

	// ActiveShard is ActiveSeries of those series whose labels.StableHash is in the shard.
	ActiveShard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

// NewLocal makes a Frontend whose one system is this process: it answers for the series that l knows
// with all that a request to a frontend can ask for, so that other frontends can have it as a member.
// The options need neither Downstreams nor Members nor a Transport, and Shards only if a
// request is to be split without asking for it.
func NewLocal(l Local, o Options) (*Frontend, error) {
	if len(o.Downstreams)+len(o.Members) > 0 || o.Transport != nil {
		return nil, errors.New("a frontend of this process' series has no downstreams")
	}
	o.Downstreams = []*url.URL{{Scheme: "http", Host: "local"}}
	o.Shards = max(o.Shards, 1)
	o.Transport = localTransport{l}
	return New(o)
}

// A localTransport answers the requests for shards that a Frontend makes.
type localTransport struct{ local Local }

// RoundTrip implements http.RoundTripper.
func (t localTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, string(seriesEndpoint)) {
		return refusal(r, http.StatusNotImplemented, "only active_series is answered here"), nil
	}
	if err := r.ParseForm(); err != nil { // closes nothing: the body is a string's
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

// shard is the series of one shard.
func (t localTransport) shard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	if sharded, ok := t.local.(ShardedLocal); ok {
		return sharded.ActiveShard(shard, keep)
	}
	return t.local.ActiveSeries(func(ls labels.Labels) bool {
		return keep(ls) && (shard.All() || labels.StableHash(ls)%shard.Count == shard.Index)
	})
}

// refusal is an answer that says no.
func refusal(r *http.Request, code int, text string) *http.Response {
	return &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}

// localBytes is about how much of a body is made at once.
const localBytes = 16 << 10

// A localBody is an answer that is made as it is read.
type localBody struct {
	next func() (labels.Labels, bool)
	stop func()

	buffer []byte
	rest   []byte // of what was made and not yet read
	items  int
	ended  bool
}

// Read implements io.Reader.
func (b *localBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		b.make()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *localBody) make() {
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

// pairs are a series' names and values.
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
