package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/taredb/tare/internal/retry"
)

// A Sender sends the samples of a history to a Receiver.
type Sender struct {
	o      Options
	client *client
	counts counts

	position position
	saved    time.Time     // when position was written to the file
	span     time.Duration // of the next window
	logged   time.Time     // when the last failure was logged; zero: the last attempt was none

	lostLogged time.Time // when lost samples were last logged
	unlogged   uint64    // samples lost since
}

// Bounds of the time of a window. A window with few bytes doubles it, one with too many halves it.
const (
	leastSpan = time.Second
	firstSpan = time.Minute
	mostSpan  = 2 * time.Hour
)

// ahead is how far after the clock a sample may be that is sent: receivers refuse samples of the future. When the clock was set back,
// samples wait for it.
const ahead = time.Minute

// New returns a Sender that starts at the position in its file.
func New(o Options) (*Sender, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("remote write: %w", err)
	}
	c, err := newClient(o.Receiver)
	if err != nil {
		return nil, fmt.Errorf("remote write: %w", err)
	}
	o.Log = o.Log.With("receiver", o.Receiver.URL.Scheme+"://"+o.Receiver.URL.Host+o.Receiver.URL.Path)
	s := &Sender{o: o, client: c, span: firstSpan}
	if err := s.openPosition(); err != nil {
		return nil, fmt.Errorf("remote write: %w", err)
	}
	return s, nil
}

// Run sends samples as they are written, until the context ends. Failures are logged, counted and retried.
func (s *Sender) Run(ctx context.Context) {
	defer s.client.close()
	for {
		s.CatchUp(ctx)
		if retry.Sleep(ctx, s.o.Interval) != nil {
			return
		}
	}
}

// CatchUp sends all that is written by now. It returns when the receiver has it, or the context ends.
func (s *Sender) CatchUp(ctx context.Context) {
	oldest := int64(0)
	for _, in := range s.o.Instances() {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.step(ctx, in); err != nil && ctx.Err() == nil {
				s.counts.failures.Add(1)
				s.o.Log.Error("remote write stopped until the next interval", "err", err)
			}
		}
		if p := s.position.Instances[in.Name]; p != nil && p.Known > p.Sent && (oldest == 0 || p.Sent < oldest) {
			oldest = p.Sent
		}
	}
	if ctx.Err() == nil {
		s.counts.unsentSince.Store(oldest)
	}
}

// step sends one window. It reports whether another one is due.
func (s *Sender) step(ctx context.Context, in Instance) (more bool, err error) {
	p := s.progressOf(in)
	until := min(in.Until, s.o.Now().Add(ahead).UnixMilli())
	if until <= p.Sent {
		return false, nil
	}
	s.skipDeleted(in, p)
	if until <= p.Sent {
		return false, s.save()
	}
	w := window{from: p.Sent, to: min(until, p.Sent+s.span.Milliseconds()), until: until, earlier: p.Spans, parts: 1}
	repeated := p.Sending > p.Sent // by an earlier process
	if repeated {
		w.to, w.until = p.Sending, p.Until
	}
	s.counts.unsentSince.Store(p.Sent)
	e := newEncoder(s.o.Receiver.Version, s.o.Metadata)
	first, err := w.read(ctx, in.Samples, e, w.limit(s.o.Bytes))
	for errors.Is(err, errWindowBytes) {
		if span := w.to - w.from; span > leastSpan.Milliseconds() && !repeated {
			w.to = w.from + span/2
			s.span = time.Duration(span/2) * time.Millisecond
		} else {
			w.parts *= 2
		}
		first, err = w.read(ctx, in.Samples, e, w.limit(s.o.Bytes))
	}
	if err != nil {
		return false, err
	}
	if len(first) > 0 || w.parts > 1 {
		p.Sending, p.Until, p.Known = w.to, w.until, max(p.Known, until)
		if err := s.save(); err != nil {
			return false, err
		}
	}
	if w.parts == 1 && e.bytes < s.o.Bytes/4 {
		s.span = min(2*s.span, mostSpan)
	}
	if err := s.sendAll(ctx, in, w, e, first, repeated); err != nil {
		return false, err
	}
	p.sent(w)
	if w.to < until && len(first) == 0 && w.parts == 1 && s.o.Now().Sub(s.saved) < time.Minute {
		return true, nil // many windows may be empty
	}
	return w.to < until, s.save()
}

// sendAll sends the requests of all parts of a window, the first of which was read.
func (s *Sender) sendAll(ctx context.Context, in Instance, w window, e *encoder, requests []request, repeated bool) error {
	if err := s.sendRequests(ctx, in, requests, repeated); err != nil {
		return err
	}
	for w.part++; w.part < w.parts; w.part++ {
		if err := s.sendPart(ctx, in, w, e, repeated); err != nil {
			return err
		}
	}
	return nil
}

// sendPart reads a part of a window and sends its requests. Hashes are not spread evenly: a part with more than twice the bytes
// is sent in two halves, in an order that a process that repeats the window has too.
func (s *Sender) sendPart(ctx context.Context, in Instance, w window, e *encoder, repeated bool) error {
	requests, err := w.read(ctx, in.Samples, e, w.limit(2*s.o.Bytes))
	if errors.Is(err, errWindowBytes) {
		half := w
		half.parts *= 2
		if err := s.sendPart(ctx, in, half, e, repeated); err != nil {
			return err
		}
		half.part += w.parts
		return s.sendPart(ctx, in, half, e, repeated)
	}
	if err != nil {
		return err
	}
	return s.sendRequests(ctx, in, requests, repeated)
}

func (s *Sender) sendRequests(ctx context.Context, in Instance, requests []request, repeated bool) error {
	for i := range requests {
		s.counts.pend(requests[i:])
		if err := s.send(ctx, in, &requests[i], repeated); err != nil {
			return err
		}
	}
	s.counts.pend(nil)
	return nil
}

// send sends one request, until the receiver has taken or refused its samples, or the context ends. repeated says that
// the receiver may have them.
func (s *Sender) send(ctx context.Context, in Instance, r *request, repeated bool) error {
	pauses := retry.Policy{First: s.o.Receiver.Backoff, Most: mostBackoff * s.o.Receiver.Backoff}.Pauses()
	for attempt := 0; ; attempt++ {
		got, err := s.client.post(ctx, r.body, attempt)
		s.counts.requests.Add(1)
		if err == nil {
			s.counts.bytes.Add(uint64(len(s.client.packed)))
			var done bool
			if done, err = s.judge(in, r, got, repeated); done {
				s.succeeded()
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.counts.failures.Add(1)
		s.failed(err)
		repeated = repeated || got.status == 0 || got.status >= 500
		if err := s.persistKnown(in); err != nil {
			s.o.Log.Warn("remote write position not saved", "err", err)
		}
		if retry.Sleep(ctx, max(got.retryAfter, pauses.NextBackOff())) != nil {
			return ctx.Err()
		}
	}
}

// judge counts the samples of a request by the response. It returns an error if the request has to be repeated.
func (s *Sender) judge(in Instance, r *request, got response, repeated bool) (done bool, err error) {
	n := r.samples + r.histograms
	switch {
	case got.status/100 == 2 && s.o.Receiver.Version == V1:
		s.position.Accepted = true
		s.counts.sent(r.samples, r.histograms)
		return true, nil
	case got.status/100 == 2 && !got.confirmed:
		return false, errors.New("the receiver does not confirm what it has written, so it does not take remote write 2.0: try version 1.0")
	case got.status/100 == 2:
		s.position.Accepted = true
		s.counts.sent(min(got.samples, r.samples), min(got.histograms, r.histograms))
		floats, histograms := max(0, r.samples-got.samples), max(0, r.histograms-got.histograms)
		if lost := floats + histograms; lost > 0 {
			cause := "the receiver dropped samples without an error"
			if histograms > 0 {
				cause = "the receiver dropped native histograms without an error"
			}
			s.counts.dropped.Add(uint64(lost))
			s.lose(in, r.oldest, r.newest, uint64(lost), cause, got.text)
		}
		return true, nil
	case isRejection(got.status) && (got.confirmed || repeated || s.position.Accepted):
		written := min(n, got.samples+got.histograms)
		s.counts.sent(min(got.samples, r.samples), min(got.histograms, r.histograms))
		if repeated {
			s.counts.repeated.Add(uint64(n - written))
			return true, nil
		}
		if written < n {
			s.counts.rejected.Add(uint64(n - written))
			s.lose(in, r.oldest, r.newest, uint64(n-written), fmt.Sprintf("the receiver rejected samples (HTTP status %d)", got.status), got.text)
		}
		return true, nil
	}
	err = fmt.Errorf("HTTP status %d: %s", got.status, got.text)
	switch got.status {
	case http.StatusBadRequest:
		err = fmt.Errorf("%w; check the scheme and the path of the URL: the receiver has not taken a request yet", err)
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w; check user, password, token and tenant", err)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		err = fmt.Errorf("%w; check the path of the URL, and that the receiver takes remote write", err)
	case http.StatusUnsupportedMediaType:
		err = fmt.Errorf("%w; the receiver may take the other version of remote write only", err)
	case http.StatusRequestEntityTooLarge:
		err = fmt.Errorf("%w; the receiver, or a proxy before it, has to take requests of 1 MiB", err)
	}
	if got.status/100 == 3 {
		err = fmt.Errorf("%w; redirects are not followed: set the URL to the address itself", err)
	}
	return false, err
}

// isRejection reports whether a status is that of samples that will not be taken later either. Thanos responds with 409.
func isRejection(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusConflict || status == http.StatusUnprocessableEntity
}

// failed logs a failure, at most once a minute.
func (s *Sender) failed(err error) {
	if now := s.o.Now(); s.logged.IsZero() || now.Sub(s.logged) >= time.Minute || now.Before(s.logged) {
		s.logged = now
		s.o.Log.Warn("remote write failed; the samples are kept and sent again", "err", err, "unsent_since", s.counts.since())
	}
}

// succeeded logs the end of failures.
func (s *Sender) succeeded() {
	if !s.logged.IsZero() {
		s.logged = time.Time{}
		s.o.Log.Log(context.Background(), slog.LevelInfo, "remote write resumed", "unsent_since", s.counts.since())
	}
}

// persistKnown persists the time of the newest sample, once a minute: samples that are deleted unsent are detected by it.
func (s *Sender) persistKnown(of Instance) error {
	if s.o.Now().Sub(s.saved) < time.Minute {
		return nil
	}
	for _, in := range s.o.Instances() {
		if p := s.position.Instances[in.Name]; p != nil && in.Name == of.Name {
			p.Known = max(p.Known, in.Until)
		}
	}
	return s.save()
}

// Lost returns the ranges of which samples are missing at the receiver, the oldest first.
func (s *Sender) Lost() []Lost { return slices.Clone(s.position.Lost) }
