package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
)

// MaxRows is the maximum number of printed rows, and of rows of a reading: the leading ones by the chosen measure
// since the start of the counters.
const MaxRows = 1000

// Options configures `tare top`.
type Options struct {
	Client *Client
	Model  ModelOptions
	Once   bool // print one table and exit
	JSON   bool // print each frame as a line of JSON
	Limit  int  // rows printed with Once and JSON

	In     *os.File  // the terminal's keys; nil: none
	Stdout io.Writer // frames
}

// Run shows frames until the context is done or the user quits.
func Run(ctx context.Context, o Options) error {
	if o.Once {
		r, err := o.Client.Read(ctx, Ask{By: o.Model.By, Filter: o.Model.Filter, Limit: o.Limit, Over: o.Model.Window})
		if err != nil {
			return err
		}
		return o.print(windowFrame(r))
	}
	if o.JSON || o.In == nil {
		return o.stream(ctx)
	}
	return o.live(ctx)
}

// windowFrame returns the frame of a reading that itself covers the window.
func windowFrame(r *Reading) *Frame {
	var h History
	f := h.Frame(r, 0)
	f.Average = r.Statements.Source == counters
	return f
}

// stream prints a frame at each tick until the context is done.
func (o *Options) stream(ctx context.Context) error {
	var h History
	every := time.NewTicker(o.Model.Every)
	defer every.Stop()
	for {
		r, err := o.Client.Read(ctx, h.next(o.Model.By, o.Model.Filter))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		f := h.Frame(r, o.Model.Window)
		if !o.JSON && !f.Average {
			if _, err := io.WriteString(o.Stdout, "\n"); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if err := o.print(f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (o *Options) print(f *Frame) error {
	f.Sort(o.Model.By, false)
	f.Rows = f.Rows[:min(len(f.Rows), o.Limit)]
	var err error
	if o.JSON {
		err = writeJSON(o.Stdout, f)
	} else {
		_, err = io.WriteString(o.Stdout, plain(o.Model, f))
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// live shows the table on a terminal.
func (o *Options) live(ctx context.Context) error {
	s := &shell{ctx: ctx, client: o.Client, every: o.Model.Every, model: NewModel(o.Model)}
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Stdout), tea.WithoutSignalHandler()).Run()
	if err == nil || ctx.Err() != nil || errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return fmt.Errorf("show the table: %w", err)
}

// A shell connects a Model to a terminal, a clock and a gateway.
type shell struct {
	ctx     context.Context //nolint:containedctx // of the readings, which bubbletea runs
	client  *Client
	every   time.Duration
	model   *Model
	history History
	reading bool // one is in progress
	again   bool // another one is to follow
}

// Messages of a shell: a reading has finished, the next one is due.
type (
	readMsg struct {
		r   *Reading
		err error
	}
	dueMsg    struct{}
	killedMsg struct{ err error }
)

// Init implements tea.Model.
func (s *shell) Init() tea.Cmd { return tea.Batch(s.read(), s.wait()) }

func (s *shell) wait() tea.Cmd {
	return tea.Tick(s.every, func(time.Time) tea.Msg { return dueMsg{} })
}

// read reads the gateway, one reading at a time.
func (s *shell) read() tea.Cmd {
	if s.reading {
		s.again = true
		return nil
	}
	s.reading, s.again = true, false
	ask := s.history.next(s.model.Selection())
	return func() tea.Msg {
		r, err := s.client.Read(s.ctx, ask)
		return readMsg{r, err}
	}
}

// Update implements tea.Model.
func (s *shell) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.model.Resize(msg.Width, msg.Height)
	case dueMsg:
		if s.model.Paused() {
			return s, s.wait()
		}
		return s, tea.Batch(s.read(), s.wait())
	case readMsg:
		s.reading = false
		if msg.err != nil {
			s.model.Fail(msg.err)
		} else {
			s.model.Show(s.history.Frame(msg.r, s.model.Window()))
		}
		if s.again {
			return s, s.read()
		}
	case killedMsg:
		s.model.Killed(msg.err)
		return s, s.read()
	case tea.KeyPressMsg:
		return s, s.key(tea.Key(msg))
	case tea.PasteMsg:
		if s.model.Typing() {
			s.model.Type(msg.Content)
		}
	}
	return s, nil
}

func (s *shell) key(key tea.Key) tea.Cmd {
	if s.model.Typing() && key.Text != "" {
		s.model.Type(key.Text)
		return nil
	}
	name := key.String()
	if name == "space" {
		name = " "
	}
	return s.press(name)
}

func (s *shell) press(name string) tea.Cmd {
	switch s.model.Key(name) {
	case Quit:
		return tea.Quit
	case Refresh:
		return s.read()
	case KillSession:
		kill := *s.model.ToKill()
		return func() tea.Msg { return killedMsg{s.client.Kill(s.ctx, kill)} }
	}
	return nil
}

// View implements tea.Model.
func (s *shell) View() tea.View {
	v := tea.NewView(s.model.View())
	v.AltScreen = true
	return v
}
