package remotewrite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

var positionPiece = localstate.Piece{Name: "remote write position", Lost: "samples that were not sent before this start, and the list of lost ranges"}

// A position is the content of the file. Times are Unix milliseconds.
type position struct {
	Version   int                  `json:"version"` // positionVersion
	Instances map[string]*progress `json:"instances"`
	Accepted  bool                 `json:"accepted"`       // the receiver has taken a request at least once
	Lost      []Lost               `json:"lost,omitempty"` // the newest last
}

// A progress is the position in one instance.
type progress struct {
	Sent    int64 `json:"sent"`              // all samples up to it were sent, or are in Lost
	Sending int64 `json:"sending,omitempty"` // samples up to it may have been sent; 0 or at least Sent
	Until   int64 `json:"until,omitempty"`   // of the window that ends at Sending
	Known   int64 `json:"known"`             // there were samples up to it

	Spans []span `json:"spans,omitempty"` // of windows that were sent, of the last hour
}

// sent moves the position to the end of a window.
func (p *progress) sent(w window) {
	p.Sent, p.Sending, p.Until, p.Known = w.to, 0, 0, max(p.Known, w.to)
	p.Spans = slices.DeleteFunc(p.Spans, func(s span) bool { return s.To < w.to-maxBefore.Milliseconds() })
	if w.until <= w.to {
		return
	}
	if n := len(p.Spans); n > 0 && p.Spans[n-1].Until == w.until && p.Spans[n-1].To == w.from {
		p.Spans[n-1].To = w.to
		return
	}
	p.Spans = append(p.Spans, span{w.from, w.to, w.until})
}

// A Lost is a range of which samples are missing at the receiver.
type Lost struct {
	Instance string    `json:"instance"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Samples  uint64    `json:"samples,omitempty"` // 0: unknown
	Cause    string    `json:"cause"`
}

// positionVersion is the version of the file.
const positionVersion = 1

// maxLost is how many ranges are kept.
const maxLost = 100

// openPosition reads the file. Without one, the position of each instance is its newest sample.
func (s *Sender) openPosition() error {
	text, err := localstate.ReadFile(s.o.File)
	var p position
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	switch {
	case err != nil:
	case p.Version != positionVersion:
		err = fmt.Errorf("of version %d, want %d", p.Version, positionVersion)
	case p.Instances == nil:
		err = errors.New("there are no instances")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		if _, ok := s.o.State.SetAside(s.o.File, positionPiece, err); !ok {
			return fmt.Errorf("set aside %s: %w", s.o.File, err)
		}
	default:
		for name, at := range p.Instances {
			if at == nil {
				p.Instances[name] = &progress{}
			}
		}
		s.position = p
		s.o.State.Created(s.o.File, localstate.File{Piece: positionPiece})
		return nil
	}
	s.position = position{Version: positionVersion, Instances: make(map[string]*progress)}
	for _, in := range s.o.Instances() {
		newest := localdb.LastTime(in.Samples.Current())
		s.position.Instances[in.Name] = &progress{Sent: newest, Known: newest}
	}
	if err := s.save(); err != nil {
		return err
	}
	s.o.State.Created(s.o.File, localstate.File{Piece: positionPiece})
	return nil
}

// save writes the file, durably.
func (s *Sender) save() error {
	text, err := json.Marshal(&s.position)
	if err == nil {
		err = localstate.WriteFile(s.o.File, text)
	}
	if err != nil {
		return fmt.Errorf("write the remote write position: %w", err)
	}
	s.saved = s.o.Now()
	return nil
}

// progressOf returns the position in an instance. One that started after the file was created is sent as a whole.
func (s *Sender) progressOf(in Instance) *progress {
	p := s.position.Instances[in.Name]
	if p == nil {
		p = &progress{}
		s.position.Instances[in.Name] = p
	}
	return p
}

// skipDeleted moves the position to the oldest sample. Samples between them were deleted before they were
// sent, unless nothing was ever written after the position.
func (s *Sender) skipDeleted(in Instance, p *progress) {
	start := localdb.Start(in.Samples.Current())
	if start == math.MaxInt64 { // there are no samples at all
		start = max(in.Until, p.Sent) + 1
	}
	if start <= p.Sent+1 {
		return
	}
	if until := min(start-1, p.Known); until > p.Sent && p.Sent > 0 {
		s.counts.lostMillis.Add(until - p.Sent)
		s.lose(in, p.Sent, until, 0, "deleted from the data directory before it could be sent", "")
	}
	p.Sent = start - 1
}

// lose records a range of lost samples, in the newest one if that continues, and logs it, at most once a minute.
func (s *Sender) lose(in Instance, from, to int64, samples uint64, cause, response string) {
	l := Lost{Instance: in.Name, From: time.UnixMilli(from).UTC(), To: time.UnixMilli(to).UTC(), Samples: samples, Cause: cause}
	list := s.position.Lost
	if n := len(list); n > 0 && list[n-1].Instance == l.Instance && list[n-1].Cause == cause && !list[n-1].To.Before(l.From) {
		list[n-1].To = l.To
		list[n-1].Samples += samples
	} else {
		list = append(list, l)
	}
	s.position.Lost = list[max(0, len(list)-maxLost):]
	s.unlogged += samples
	if now := s.o.Now(); s.lostLogged.IsZero() || now.Sub(s.lostLogged) >= time.Minute || now.Before(s.lostLogged) {
		s.o.Log.Error("remote write: samples lost", "from", l.From, "to", l.To, "samples", s.unlogged, "cause", cause, "response", response)
		s.lostLogged, s.unlogged = now, 0
	}
}
