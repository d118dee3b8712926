package alter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/panics"
)

// hookTimeout bounds the time of one execution of Options.OnEvent. The command and its children are killed then.
const hookTimeout = 30 * time.Second

// hookOutput is how many bytes of the output of a command that fails are reported.
const hookOutput = 2 << 10

// A hookEvent is the standard input of Options.OnEvent, as one line of JSON.
type hookEvent struct {
	Event  hookKind  `json:"event"`
	Time   time.Time `json:"time"`
	Table  string    `json:"table"`
	Alter  string    `json:"alter"`           // the clauses
	Server string    `json:"server"`          // its address
	Way    Way       `json:"way,omitempty"`   // once it is chosen
	Rows   int64     `json:"rows,omitempty"`  // with rows_copied: in the shadow table
	Error  string    `json:"error,omitempty"` // with failed
	Old    string    `json:"old,omitempty"`   // with swapped: the old table
	Until  string    `json:"until,omitempty"` // with swapped: until when it is kept

	PauseSeconds float64 `json:"pause_seconds,omitempty"` // with swapped: for how long clients waited at most
}

// A hookKind is the kind of a hookEvent.
type hookKind string

// The kinds of events.
const (
	hookStarted    hookKind = "started"       // the table is going to be altered, or the alteration is resumed
	hookRowsCopied hookKind = "rows_copied"   // all rows are in the shadow table
	hookReady      hookKind = "ready_to_swap" // all rows are equal; a postponed swap awaits ctl cutover
	hookSwapped    hookKind = "swapped"       // the table is altered by a copy
	hookAltered    hookKind = "altered"       // the table is altered by the server
	hookReverted   hookKind = "reverted"      // the table has its former definition
	hookFailed     hookKind = "failed"        // the command ends with an error
)

// withHooks has events passed to the command of the options until end is called.
func (o *Options) withHooks() (end func()) {
	if o.hooks != nil {
		return func() {}
	}
	o.hooks = &hooks{o: o}
	return o.hooks.done.Wait
}

// hooks execute a command for each event, one after the other, while the alteration proceeds.
type hooks struct {
	o *Options

	mu      sync.Mutex
	waiting []hookEvent
	busy    bool // a goroutine executes them
	done    sync.WaitGroup
}

// emit has the command executed for an event.
func (h *hooks) emit(e hookEvent) {
	if h == nil || h.o.OnEvent == "" || h.o.Monitor == nil {
		return
	}
	s := h.o.Monitor.status()
	e.Time, e.Table, e.Alter, e.Server, e.Way = time.Now().UTC(), s.Table, s.Alter, h.o.On.Addr, Way(s.Way)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, e)
	if !h.busy {
		h.busy = true
		h.done.Go(func() {
			_ = panics.Guard(func() error { // the alteration proceeds
				h.work()
				return nil
			})
		})
	}
}

// failed emits the event of an error.
func (h *hooks) failed(err error) {
	if err != nil {
		h.emit(hookEvent{Event: hookFailed, Error: err.Error()})
	}
}

func (h *hooks) work() {
	for {
		h.mu.Lock()
		if len(h.waiting) == 0 {
			h.busy = false
			h.mu.Unlock()
			return
		}
		e := h.waiting[0]
		h.waiting = slices.Delete(h.waiting, 0, 1)
		h.mu.Unlock()
		if err := panics.Guard(func() error { return h.execute(&e) }); err != nil {
			h.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf("option on-event for %s: %v; the alteration proceeds", e.Event, err)})
		}
	}
}

// execute executes the command for an event. It passes no TARE_… variables of the environment, which may contain passwords.
func (h *hooks) execute(e *hookEvent) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	var out limitedBuffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", h.o.OnEvent)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(text, '\n')), &out, &out
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TARE_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch said := strings.TrimSpace(out.String()); {
	case ctx.Err() != nil:
		return fmt.Errorf("it took longer than %v and was killed", hookTimeout)
	case err != nil && said != "":
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// A limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), hookOutput-b.Len())])
	return len(p), nil
}
