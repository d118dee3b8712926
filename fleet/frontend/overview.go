package frontend

import (
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/fleet/activeseries"
)

const (
	// latestRequests is the number of requests kept for Overview, and latestText the maximum of bytes of each
	// of their texts.
	latestRequests = 50
	latestText     = 512
)

// An Overview describes the downstreams of a frontend and its requests since it was created. Its JSON is
// stable.
type Overview struct {
	Members bool   `json:"members"` // Peers are systems with different series; otherwise replicas of one
	Peers   []Peer `json:"peers"`

	Shards      int     `json:"shards"`       // default of a request
	MaxShards   int     `json:"max_shards"`   // 0: no limit
	MaxRequests int     `json:"max_requests"` // concurrent; 0: no limit
	Timeout     float64 `json:"timeout_seconds"`
	Decoder     string  `json:"decoder"`
	Compare     float64 `json:"compare"` // fraction of requests that both decoders decode, 0 to 1

	Running     int    `json:"running"`     // requests being served
	Requests    uint64 `json:"requests"`    // finished requests
	Failed      uint64 `json:"failed"`      // of those
	Retries     uint64 `json:"retries"`     // second requests for shards after a failure
	Compared    uint64 `json:"compared"`    // requests that both decoders decoded
	Differences uint64 `json:"differences"` // bodies on which the decoders disagreed

	LastDifference *Disagreement   `json:"last_difference,omitempty"`
	Latest         []RecentRequest `json:"latest"` // newest first, at most 50
}

// A Peer is a downstream of the frontend. Its JSON is stable.
type Peer struct {
	URL       string  `json:"url"` // without its password
	Responded uint64  `json:"answered"`
	Refused   uint64  `json:"refused"` // by a status below 500
	Failed    uint64  `json:"failed"`
	Seconds   float64 `json:"seconds"` // total time until the headers of successful responses

	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// A Disagreement is a body that the decoders read differently. Its JSON is stable.
type Disagreement struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// A RecentRequest is one request of a client. Its JSON is stable.
type RecentRequest struct {
	At       time.Time `json:"at"`
	Endpoint string    `json:"endpoint"`
	Tenant   string    `json:"tenant,omitempty"`
	Selector string    `json:"selector,omitempty"` // as requested, or with ? for the values of labels
	CountBy  string    `json:"count_by,omitempty"`
	Shards   int       `json:"shards"`
	Items    int64     `json:"items"` // in the response
	Bytes    int64     `json:"bytes"` // of the response
	Seconds  float64   `json:"seconds"`
	Status   int       `json:"status"`
	Error    string    `json:"error,omitempty"`
}

// Overview returns the state and the counts of the frontend. Unless values may be shown, selectors have ? for
// the values of labels, and errors, which may quote them, are replaced by their status.
func (f *Frontend) Overview(values bool) Overview {
	o, d := &f.options, f.currentDecoding()
	v := Overview{
		Members: len(o.Members) > 0, Peers: f.peers.list(values),
		Shards: o.Shards, MaxShards: o.MaxShards, MaxRequests: o.MaxRequests, Timeout: o.Timeout.Seconds(),
		Decoder: d.By.String(), Compare: d.Compare, Running: f.Running(),
	}
	f.latest.read(&v, values)
	return v
}

// A peerCount counts requests to one peer by outcome.
type peerCount struct {
	url                     string
	served, refused, failed atomic.Uint64
	nanos                   atomic.Int64

	mu    sync.Mutex
	fault string    // last error; guarded by mu
	plain string    // last error without parts that may quote a selector; guarded by mu
	at    time.Time // time of the last error; guarded by mu
}

// peers are the counts of all downstreams. The map is never changed.
type peers struct {
	counts  []*peerCount
	ofOwner map[*url.URL]*peerCount
}

func newPeers(o *Options) peers {
	p := peers{ofOwner: make(map[*url.URL]*peerCount)}
	for _, list := range [][]*url.URL{o.Members, o.Downstreams} {
		for _, u := range list {
			c := &peerCount{url: u.Redacted()}
			p.counts = append(p.counts, c)
			p.ofOwner[u] = c
		}
	}
	return p
}

// served counts a successful request to u, whose headers arrived after took.
func (p *peers) served(u *url.URL, took time.Duration) {
	if c := p.ofOwner[u]; c != nil {
		c.served.Add(1)
		c.nanos.Add(int64(took))
	}
}

// failed counts a request to u that was refused or failed. The text of err may quote values of a selector;
// plain does not.
func (p *peers) failed(u *url.URL, what outcome, plain string, err error) {
	c := p.ofOwner[u]
	if c == nil {
		return
	}
	if what == outcomeRefused {
		c.refused.Add(1)
	} else {
		c.failed.Add(1)
	}
	plain, text := truncate(plain), truncate(err.Error())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain, c.fault, c.at = plain, text, time.Now()
}

func (p *peers) list(values bool) []Peer {
	list := make([]Peer, 0, len(p.counts))
	for _, c := range p.counts {
		one := Peer{
			URL: c.url, Responded: c.served.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
			Seconds: time.Duration(c.nanos.Load()).Seconds(),
		}
		c.mu.Lock()
		if !c.at.IsZero() {
			at := c.at.UTC()
			one.LastErrorAt, one.LastError = &at, c.plain
			if values {
				one.LastError = c.fault
			}
		}
		c.mu.Unlock()
		list = append(list, one)
	}
	return list
}

// latest keeps the latest requests, in some 50 KiB at most.
type latest struct {
	mu                                             sync.Mutex
	requests, failed, retries, compared, different uint64
	asked                                          []latestRequest // a ring buffer once it is full
	next                                           int             // index in asked once it is full
	difference                                     *Disagreement
}

type latestRequest struct {
	RecentRequest
	masked string
}

// record records a finished request.
func (l *latest) record(r *record) {
	a := latestRequest{masked: truncate(r.Masked), RecentRequest: RecentRequest{
		At: r.Start.UTC(), Endpoint: r.Endpoint, Tenant: truncate(r.Tenant), Selector: truncate(r.Selector), CountBy: truncate(r.CountBy),
		Shards: r.Shards, Items: r.ItemsOut, Bytes: r.BytesOut, Seconds: r.Total.Seconds(), Status: r.Status, Error: truncate(r.ErrorText),
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
	l.retries += uint64(r.Retries)
	if r.ErrorText != "" {
		l.failed++
	}
	if r.Compared {
		l.compared++
	}
	if len(l.asked) < latestRequests {
		l.asked = append(l.asked, a)
		return
	}
	l.asked[l.next] = a
	l.next = (l.next + 1) % latestRequests
}

func (l *latest) recordDifference(d activeseries.Difference) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.different++
	l.difference = &Disagreement{At: time.Now().UTC(), Text: truncate(d.String())}
}

func (l *latest) read(v *Overview, values bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Requests, v.Failed, v.Retries = l.requests, l.failed, l.retries
	v.Compared, v.Differences = l.compared, l.different
	if l.difference != nil {
		d := *l.difference
		if !values {
			d.Text = ""
		}
		v.LastDifference = &d
	}
	v.Latest = make([]RecentRequest, 0, len(l.asked))
	for i := range l.asked {
		k := (l.next - 1 - i + 2*len(l.asked)) % len(l.asked)
		a := l.asked[k]
		if !values {
			a.Selector, a.Error = a.masked, ""
		}
		v.Latest = append(v.Latest, a.RecentRequest)
	}
}

// truncate returns a copy of the start of a text.
func truncate(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= latestText {
		return strings.Clone(text)
	}
	n := latestText
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
