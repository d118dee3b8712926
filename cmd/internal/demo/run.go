package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// frameEvery is the interval between frames on a terminal, plainEvery the interval between lines
	// elsewhere.
	frameEvery = time.Second
	plainEvery = 5 * time.Second

	// settleTimeout is the time limit for outstanding log records at the end; the gateway flushes them every
	// second.
	settleTimeout = 3 * time.Second
	settleEvery   = 50 * time.Millisecond

	scrapeTimeout = 10 * time.Second
)

// Options configures `tare demo`.
type Options struct {
	// For is the duration of the demo; 0: until the context is done.
	For time.Duration

	// JSON prints a Result on Stdout instead of the table and summary.
	JSON bool

	// HTTP is the address of the gateway's pages. Empty: its default, or a free one if that is in use.
	HTTP string

	// Tare is the path of the binary whose subcommand serve is the gateway.
	Tare string

	Stdout, Stderr io.Writer
}

// Validate returns an error if o is invalid.
func (o *Options) Validate() error {
	if o.For < 0 {
		return fmt.Errorf("--for %v: want a duration of more than 0, or none", o.For)
	}
	return nil
}

// Run runs the demo. When the context is done it ends with a summary; it returns the context's error only if
// o.For had not passed yet.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	s, err := startStage(ctx, &o)
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return err
	}
	v, err := watch(ctx, &o, s)
	if err != nil {
		return err
	}
	if err := printEnd(&o, v); err != nil {
		return err
	}
	if o.For > 0 {
		return ctx.Err()
	}
	return nil
}

// watch displays the demo until its end, then stops the workload and returns the last view.
func watch(ctx context.Context, o *Options, s *stage) (*view, error) {
	d, err := newDisplay(o, s.places)
	if err != nil {
		return nil, err
	}
	err = follow(ctx, o, s, d)
	if err := errors.Join(err, d.close()); err != nil {
		return nil, err
	}
	elapsed := time.Since(s.began)
	if err := s.work.Stop(stopGrace); err != nil {
		return nil, err
	}
	return s.settle(context.WithoutCancel(ctx), elapsed)
}

// follow shows a view at each tick. It returns nil when the demo's time is over.
func follow(ctx context.Context, o *Options, s *stage, d *display) error {
	var over <-chan time.Time // nil, which never fires, unless o.For is set
	if o.For > 0 {
		timer := time.NewTimer(time.Until(s.began.Add(o.For)))
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(d.every)
	defer ticker.Stop()
	deploy := time.NewTimer(time.Until(s.began.Add(scaled(deployAfter, o.For))))
	defer deploy.Stop()
	heal := time.NewTimer(time.Until(s.began.Add(scaled(healAfter, o.For))))
	defer heal.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		case <-deploy.C:
			if err := d.announce(s, s.deploy(ctx)); err != nil && ctx.Err() == nil {
				return s.blame(err)
			}
		case <-heal.C:
			if err := d.announce(s, s.heal(ctx)); err != nil && ctx.Err() == nil {
				return s.blame(err)
			}
		case <-ticker.C:
			v, err := s.view(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				err = d.show(v)
			}
			if err != nil {
				return s.blame(err)
			}
		case <-s.engine.Done:
			return s.engine.Ended()
		case <-s.gateway.Done:
			return s.gateway.Ended()
		case <-s.work.Done:
			return s.work.Ended()
		case err := <-s.streamed:
			return s.blame(err)
		}
	}
}

// printEnd prints the result.
func printEnd(o *Options, v *view) error {
	if o.JSON {
		enc := json.NewEncoder(o.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v.result()); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		return nil
	}
	width := fullWidth
	if sc := screenOf(o.Stdout); sc != nil {
		width, _ = sc.size()
	}
	text := appendSummary(nil, v, width)
	text = append(text, "\nOn your own database:  tare serve --backend mysql://HOST:3306\n"...)
	if _, err := o.Stdout.Write(text); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	return nil
}

// A display shows views while the demo runs: frames on a terminal, lines elsewhere.
type display struct {
	screen *screen   // nil if frames cannot be shown
	lines  io.Writer // otherwise
	every  time.Duration
	places places
	buf    []byte
}

// newDisplay prepares o.Stdout. With --json the lines go to o.Stderr.
func newDisplay(o *Options, p places) (*display, error) {
	d := &display{places: p, lines: o.Stdout, every: plainEvery}
	if o.JSON {
		d.lines = o.Stderr
	} else if d.screen = screenOf(o.Stdout); d.screen != nil {
		d.every = frameEvery
		if err := d.screen.enter(); err != nil {
			return nil, fmt.Errorf("show the table: %w", err)
		}
		return d, nil
	}
	if _, err := d.lines.Write(append(appendHints(nil, p, fullWidth), '\n')); err != nil {
		return nil, fmt.Errorf("show progress: %w", err)
	}
	return d, nil
}

func (d *display) show(v *view) error {
	if d.screen == nil {
		d.buf = appendPlain(d.buf[:0], v)
		if _, err := d.lines.Write(d.buf); err != nil {
			return fmt.Errorf("show progress: %w", err)
		}
		return nil
	}
	width, height := d.screen.size()
	d.buf = appendFrame(d.buf[:0], v, d.places, width, height)
	if err := d.screen.show(d.buf, height); err != nil {
		return fmt.Errorf("show the table: %w", err)
	}
	return nil
}

// announce shows where to look for the incident: in the next frame, or in a line. It returns err if that is not nil.
func (d *display) announce(s *stage, err error) error {
	if err != nil {
		return err
	}
	d.places = s.places
	if d.screen != nil {
		return nil
	}
	if _, err := fmt.Fprintln(d.lines, s.places.find); err != nil {
		return fmt.Errorf("show progress: %w", err)
	}
	return nil
}

func (d *display) close() error {
	if d.screen == nil {
		return nil
	}
	return d.screen.leave()
}

// screenOf returns the screen of a writer that is a terminal, otherwise nil.
func screenOf(w io.Writer) *screen {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	return newScreen(f)
}

// newHTTPClient returns a client with separate connections, to be closed at the demo's end.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{}}
}
