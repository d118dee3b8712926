package top

import (
	"slices"
	"time"
	"unicode/utf8"
)

// An Action is what a key asks the shell to do.
type Action uint8

// The actions.
const (
	None Action = iota
	Quit
	Refresh // read the gateway again: what is asked for has changed
)

// windows are the times that rates can be over.
var windows = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}

// maxFilter bounds what can be typed.
const maxFilter = 200

// What the screen shows.
const (
	showTable = iota
	showStatement
	showHelp
)

// A Model is the screen's state: what a user has chosen, and the latest frame.
type Model struct {
	host   string
	every  time.Duration
	by     Measure
	up     bool // the least first
	filter string
	window time.Duration
	paused bool

	width, height int
	frame         *Frame
	failure       error // of the latest reading; the frame is older
	chosen        Key   // the row under the cursor, wherever it moves
	cursor        int
	first         int // the first row that is seen
	shows         int
	scroll        int // lines of the statement or the help above the screen
	typing        bool
	typed         string
}

// ModelOptions say how a Model begins.
type ModelOptions struct {
	Host   string
	Every  time.Duration // between two readings
	Window time.Duration
	By     Measure
	Filter string
}

// NewModel is a screen of 80 columns and 24 rows that has no frame yet.
func NewModel(o ModelOptions) *Model {
	return &Model{host: o.Host, every: o.Every, window: o.Window, by: o.By, filter: o.Filter, width: 80, height: 24}
}

// Window is the time that frames are to be over.
func (m *Model) Window() time.Duration { return m.window }

// Asked is what is to be read.
func (m *Model) Asked() (by Measure, filter string) { return m.by, m.filter }

// Paused says that the shown frame is to stay.
func (m *Model) Paused() bool { return m.paused }

// Resize tells the size of the terminal.
func (m *Model) Resize(width, height int) {
	m.width, m.height = max(1, width), max(1, height)
	m.follow()
}

// Show shows a frame.
func (m *Model) Show(f *Frame) {
	m.frame, m.failure = f, nil
	m.order()
}

// Fail says why there is no newer frame.
func (m *Model) Fail(err error) { m.failure = err }

// order orders the rows and keeps the cursor on its row.
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

// move puts the cursor n rows further. At the top it stays there, whatever row comes first.
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

// follow keeps the cursor on the screen.
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

// Type is text that was typed or pasted while a filter is being written.
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

// Typing says that a filter is being written: characters go to Type, other keys to Key.
func (m *Model) Typing() bool { return m.typing }

// Key is a key by its name, as bubbletea has them.
func (m *Model) Key(name string) Action {
	switch {
	case name == "ctrl+c":
		return Quit
	case m.typing:
		return m.keyTyping(name)
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

// keyAsk are the keys that change what is asked for.
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

// widen takes the next longer or shorter window.
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

// keyText are the keys of a text: a statement or the help.
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
