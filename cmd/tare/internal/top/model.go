package top

import (
	"slices"
	"time"
	"unicode/utf8"
)

// An Action is a request of a key to the shell.
type Action uint8

// The actions.
const (
	None Action = iota
	Quit
	Refresh     // read the gateway again: the request has changed
	KillSession // send ToKill
)

// windows are the possible time ranges of rates.
var windows = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// maxFilter bounds the length of a filter.
const maxFilter = 200

// Contents of the screen.
const (
	showTable = iota
	showStatement
	showHelp
	showSessions
)

// A Model is the screen's state: the user's choices and the latest frame.
type Model struct {
	host   string
	every  time.Duration
	by     Measure
	up     bool // ascending order
	filter string
	window time.Duration
	paused bool

	width, height int
	frame         *Frame
	failure       error // of the latest reading; the frame is older
	chosen        Key   // the row under the cursor, even if it moves
	cursor        int
	first         int // first visible row
	shows         int
	scroll        int // lines of the statement or the help above the screen
	typing        bool
	typed         string

	session       int    // the row under the cursor of the screen of sessions
	byTransaction bool   // it shows the longest transactions
	asked         *Kill  // to be confirmed
	kill          *Kill  // confirmed
	said          string // in the foot of that screen
}

// ModelOptions configures a Model.
type ModelOptions struct {
	Host   string
	Every  time.Duration // interval between readings
	Window time.Duration
	By     Measure
	Filter string
}

// NewModel returns a screen of 80 columns and 24 rows without a frame.
func NewModel(o ModelOptions) *Model {
	return &Model{host: o.Host, every: o.Every, window: o.Window, by: o.By, filter: o.Filter, width: 80, height: 24}
}

// Window returns the time range of frames.
func (m *Model) Window() time.Duration { return m.window }

// Selection returns the parameters of the next reading.
func (m *Model) Selection() (by Measure, filter string) { return m.by, m.filter }

// Paused reports whether the shown frame must stay.
func (m *Model) Paused() bool { return m.paused }

// Resize sets the size of the terminal.
func (m *Model) Resize(width, height int) {
	m.width, m.height = max(1, width), max(1, height)
	m.follow()
}

// Show shows a frame.
func (m *Model) Show(f *Frame) {
	m.frame, m.failure = f, nil
	m.order()
	m.session = max(min(m.session, len(m.sessionsShown())-1), 0)
}

// Fail sets the reason why there is no newer frame.
func (m *Model) Fail(err error) { m.failure = err }

// order sorts the rows and keeps the cursor on its row.
func (m *Model) order() {
	if m.frame == nil {
		return
	}
	m.frame.Sort(m.by, m.up)
	if i := slices.IndexFunc(m.frame.Rows, func(l Line) bool { return l.Key == m.chosen }); i >= 0 && m.chosen != (Key{}) {
		m.cursor = i
	}
	m.follow()
}

// move moves the cursor by n rows. At the top it stays there, even if the first row changes.
func (m *Model) move(n int) {
	if m.frame == nil || len(m.frame.Rows) == 0 {
		return
	}
	m.cursor = min(max(m.cursor+n, 0), len(m.frame.Rows)-1)
	m.chosen = Key{}
	if m.cursor > 0 {
		m.chosen = m.frame.Rows[m.cursor].Key
	}
	m.follow()
}

// follow keeps the cursor visible.
func (m *Model) follow() {
	rows := 0
	if m.frame != nil {
		rows = len(m.frame.Rows)
	}
	m.cursor = min(max(m.cursor, 0), max(rows-1, 0))
	room := m.room()
	m.first = min(m.first, m.cursor)
	m.first = max(m.first, m.cursor-room+1)
	m.first = max(0, min(m.first, rows-room))
}

// Type adds typed or pasted text to the filter being edited.
func (m *Model) Type(text string) Action {
	if !m.typing {
		return None
	}
	for _, r := range text {
		if r >= ' ' && r != utf8.RuneError && len(m.typed) < maxFilter {
			m.typed += string(r)
		}
	}
	return None
}

// Typing reports whether a filter is being edited: characters go to Type, other keys to Key.
func (m *Model) Typing() bool { return m.typing }

// Key handles a key by its name in bubbletea.
func (m *Model) Key(name string) Action {
	switch {
	case name == "ctrl+c":
		return Quit
	case m.typing:
		return m.keyTyping(name)
	case m.shows == showSessions:
		return m.keySessions(name)
	case m.shows != showTable:
		return m.keyText(name)
	}
	switch name {
	case "q", "esc":
		return Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-m.room())
	case "pgdown", "ctrl+f":
		m.move(m.room())
	case "home", "g":
		m.move(-m.cursor)
	case "end", "G":
		m.move(1 << 20)
	case "enter":
		if m.frame != nil && len(m.frame.Rows) > 0 {
			m.chosen = m.frame.Rows[m.cursor].Key
			m.shows, m.scroll = showStatement, 0
		}
	case "n":
		m.shows, m.session = showSessions, 0
	case "?", "h":
		m.shows, m.scroll = showHelp, 0
	case "/":
		m.typing, m.typed = true, m.filter
	case " ", "p":
		m.paused = !m.paused
		if !m.paused {
			return Refresh
		}
	default:
		return m.keyAsk(name)
	}
	return None
}

// keyAsk handles the keys that change the request.
func (m *Model) keyAsk(name string) Action {
	all := Measures()
	at := slices.Index(all, m.by)
	switch name {
	case "s", "right", ">":
		m.by = all[(at+1)%len(all)]
	case "S", "left", "<":
		m.by = all[(at+len(all)-1)%len(all)]
	case "r":
		m.up = !m.up
	case "+", "=":
		m.widen(1)
	case "-":
		m.widen(-1)
	default:
		return None
	}
	m.order()
	return Refresh
}

// widen selects the next longer or shorter window.
func (m *Model) widen(by int) {
	at, _ := slices.BinarySearch(windows, m.window)
	if by < 0 || at < len(windows) && windows[at] == m.window {
		at += by
	}
	m.window = windows[min(max(at, 0), len(windows)-1)]
}

func (m *Model) keyTyping(name string) Action {
	switch name {
	case "enter":
		m.typing = false
		if m.filter != m.typed {
			m.filter = m.typed
			m.cursor, m.first, m.chosen = 0, 0, Key{}
			return Refresh
		}
	case "esc":
		m.typing = false
	case "ctrl+u":
		m.typed = ""
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(m.typed)
		m.typed = m.typed[:len(m.typed)-n]
	}
	return None
}

// keyText handles the keys of a text: a statement or the help.
func (m *Model) keyText(name string) Action {
	switch name {
	case "q", "esc", "enter", "backspace", "left":
		m.shows = showTable
	case "?", "h":
		m.shows = map[int]int{showHelp: showTable, showStatement: showHelp}[m.shows]
		m.scroll = 0
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup", "ctrl+b":
		m.scroll -= m.height - 1
	case "pgdown", "ctrl+f":
		m.scroll += m.height - 1
	case "home", "g":
		m.scroll = 0
	case " ", "p":
		m.paused = !m.paused
		if !m.paused {
			return Refresh
		}
	}
	return None
}
