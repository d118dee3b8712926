package frontend

import (
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/activeseries"
)

const (
	// latestRequests are remembered for Overview, and latestText is how many bytes of each text of theirs.
	latestRequests = 50
	latestText     = 512
)

// An Overview is what a frontend asks, of whom, and how that went since it was made. Its JSON is stable.
type Overview struct {
	Members bool   `json:"members"` // Peers are systems with different series; else replicas of one
	Peers   []Peer `json:"peers"`

	Shards      int     `json:"shards"`      // of a request that does not say how many
	MaxShards   int     `json:"maxShards"`   // 0: no limit
	MaxRequests int     `json:"maxRequests"` // at the same time; 0: no limit
	Timeout     float64 `json:"timeoutSeconds"`
	Decoder     string  `json:"decoder"`
	Compare     float64 `json:"compare"` // share of requests that both decoders decode, 0 to 1

	Running     int    `json:"running"`     // requests that are being answered
	Requests    uint64 `json:"requests"`    // that have ended
	Failed      uint64 `json:"failed"`      // of them
	Retries     uint64 `json:"retries"`     // requests for shards that were made a second time
	Compared    uint64 `json:"compared"`    // requests that both decoders decoded
	Differences uint64 `json:"differences"` // bodies on which they did not agree

	LastDifference *Disagreement `json:"lastDifference,omitempty"`
	Latest         []Asked       `json:"latest"` // newest first, some 50 at most
}

// A Peer is somebody who is asked. Its JSON is stable.
type Peer struct {
	URL      string  `json:"url"` // without its password
	Answered uint64  `json:"answered"`
	Refused  uint64  `json:"refused"` // by a status below 500
	Failed   uint64  `json:"failed"`
	Seconds  float64 `json:"seconds"` // until headers came, of all that answered together

	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

// A Disagreement is a body that the decoders read differently. Its JSON is stable.
type Disagreement struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Asked is one request of a client. Its JSON is stable.
type Asked struct {
	At       time.Time `json:"at"`
	Endpoint string    `json:"endpoint"`
	Tenant   string    `json:"tenant,omitempty"`
	Selector string    `json:"selector,omitempty"` // as asked, or with ? for the values of labels
	CountBy  string    `json:"countBy,omitempty"`
	Shards   int       `json:"shards"`
	Items    int64     `json:"items"` // in the answer
	Bytes    int64     `json:"bytes"` // of the answer
	Seconds  float64   `json:"seconds"`
	Status   int       `json:"status"`
	Error    string    `json:"error,omitempty"`
}

// Overview returns what the frontend does and has done. Unless values may be shown, selectors have ? for
// the the values of labels, and errors, which may repeat them, are told by their status.
func (f *Frontend) Overview(values bool) Overview {
	o, d := &f.options, f.Decoding()
	v := Overview{
		Members: len(o.Members) > 0, Peers: f.peers.list(values),
		Shards: o.Shards, MaxShards: o.MaxShards, MaxRequests: o.MaxRequests, Timeout: o.Timeout.Seconds(),
		Decoder: d.By.String(), Compare: d.Compare, Running: f.Running(),
	}
	f.latest.read(&v, values)
	return v
}

// A peerCount counts what became of requests to one peer.
type peerCount struct {
	url                       string
	answered, refused, failed atomic.Uint64
	nanos                     atomic.Int64

	mu    sync.Mutex
	fault string    // the last error; guarded by mu
	plain string    // the same without what it may repeat of a selector; guarded by mu
	at    time.Time // of it; guarded by mu
}

// peers are those whom a frontend may ask. The map is never changed.
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

// answered counts a request to u whose headers came after so long.
func (p *peers) answered(u *url.URL, took time.Duration) {
	if c := p.ofOwner[u]; c != nil {
		c.answered.Add(1)
		c.nanos.Add(int64(took))
	}
}

// failed counts a request to u that was refused or failed. What the error says may repeat the values of a
// selector; plain does not.
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
	plain, text := short(plain), short(err.Error())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain, c.fault, c.at = plain, text, time.Now()
}

func (p *peers) list(values bool) []Peer {
	list := make([]Peer, 0, len(p.counts))
	for _, c := range p.counts {
		one := Peer{
			URL: c.url, Answered: c.answered.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
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

// latest remembers the latest requests: some 50 KiB at most.
type latest struct {
	mu                                             sync.Mutex
	requests, failed, retries, compared, different uint64
	asked                                          []latestRequest // a ring once it is full
	next                                           int             // in asked, when it is full
	difference                                     *Disagreement
}

type latestRequest struct {
	Asked
	masked string
}

// note remembers a request that has ended.
func (l *latest) note(r *Record) {
	a := latestRequest{masked: short(r.Masked), Asked: Asked{
		At: r.Start.UTC(), Endpoint: r.Endpoint, Tenant: short(r.Tenant), Selector: short(r.Selector), CountBy: short(r.CountBy),
		Shards: r.Shards, Items: r.ItemsOut, Bytes: r.BytesOut, Seconds: r.Total.Seconds(), Status: r.Status, Error: short(r.ErrorText),
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

func (l *latest) differ(d activeseries.Difference) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.different++
	l.difference = &Disagreement{At: time.Now().UTC(), Text: short(d.String())}
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
	v.Latest = make([]Asked, 0, len(l.asked))
	for i := range l.asked {
		k := (l.next - 1 - i + 2*len(l.asked)) % len(l.asked)
		a := l.asked[k]
		if !values {
			a.Selector, a.Error = a.masked, ""
		}
		v.Latest = append(v.Latest, a.Asked)
	}
}

// short is the beginning of a text, as a text of its own.
func short(text string) string {
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
