package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/visible"
)

// MaxSessions is the maximum number of sessions of a reading.
const MaxSessions = 200

// Sessions is the response of /api/v1/sessions.
type Sessions struct {
	At           time.Time      `json:"at"`
	Counts       map[string]int `json:"counts"`
	Dropped      int            `json:"dropped"`
	Sessions     []Session      `json:"sessions"`
	Transactions []Session      `json:"transactions"`
	LockProblem  string         `json:"lock_problem,omitempty"`
}

// A Session is within a command or a transaction.
type Session struct {
	Session     uint64  `json:"session"`
	Command     uint32  `json:"command"`
	Connection  uint32  `json:"connection"`
	User        string  `json:"user"`
	Client      string  `json:"client"`
	Schema      string  `json:"schema"`
	Backend     string  `json:"backend"`
	State       string  `json:"state"`
	Name        string  `json:"name,omitempty"`
	Seconds     float64 `json:"seconds"`
	Digest      string  `json:"digest,omitempty"`
	Type        string  `json:"type,omitempty"`
	Text        string  `json:"text,omitempty"`
	TextCut     bool    `json:"text_cut,omitempty"`
	Rows        uint64  `json:"rows_sent"`
	Transaction float64 `json:"transaction_seconds"`
	Pinned      string  `json:"pinned,omitempty"`
	Waits       *Block  `json:"waits_for,omitempty"`
}

// A Block is a lock that a session waits for.
type Block struct {
	Kind       string `json:"kind"`
	Table      string `json:"table"`
	Connection uint32 `json:"connection"`
	Session    uint64 `json:"session,omitempty"`
	User       string `json:"user,omitempty"`
	State      string `json:"state,omitempty"`
}

// A Kill is a request to kill a statement, or a session.
type Kill struct {
	Session uint64 `json:"session"`
	Command uint32 `json:"command"`
	What    string `json:"what"` // "statement" or "session"
}

// asks describes a kill as a question.
func (k *Kill) asks(s *Session) string {
	return fmt.Sprintf("kill the %s of connection %d (%s from %s)? y yes, other keys no", k.What, s.Connection, visible.Line(s.User), visible.Line(s.Client))
}

// sessionsShown returns the sessions of the screen in their order: statements in flight and idle transactions, or the
// longest transactions.
func (m *Model) sessionsShown() []Session {
	switch {
	case m.frame == nil || m.frame.Sessions == nil:
		return nil
	case m.byTransaction:
		return m.frame.Sessions.Transactions
	}
	return m.frame.Sessions.Sessions
}

// keySessions handles the keys of the screen of sessions.
func (m *Model) keySessions(name string) Action {
	if m.asked != nil {
		kill := *m.asked
		if m.asked, m.said = nil, ""; name == "y" {
			m.kill = &kill
			return KillSession
		}
		return None
	}
	all := m.sessionsShown()
	m.said = ""
	switch name {
	case "q", "esc", "n", "left", "backspace":
		m.shows = showTable
	case "?", "h":
		m.shows, m.scroll = showHelp, 0
	case "up", "k":
		m.session--
	case "down", "j":
		m.session++
	case "home", "g":
		m.session = 0
	case "t", "s":
		m.byTransaction, m.session = !m.byTransaction, 0
	case "x", "X":
		if m.session >= len(all) {
			break
		}
		s := &all[m.session]
		m.asked = &Kill{s.Session, s.Command, map[string]string{"x": "statement", "X": "session"}[name]}
		if m.said = m.asked.asks(s); name == "x" && s.Name == "" {
			m.asked, m.said = nil, "no statement runs in this session: X kills the session"
		}
	case " ", "p":
		if m.paused = !m.paused; !m.paused {
			return Refresh
		}
	}
	m.session = max(min(m.session, len(m.sessionsShown())-1), 0)
	return None
}

// ToKill returns the kill that the user has confirmed.
func (m *Model) ToKill() *Kill { return m.kill }

// Killed shows the result of a kill.
func (m *Model) Killed(err error) {
	if m.said = "killed"; err != nil {
		m.said = "not killed: " + oneLine(err)
	}
	m.kill = nil
}

// sessionsView returns the screen of sessions.
func (m *Model) sessionsView() []string {
	lines := m.head()[:min(2, m.height)]
	all := m.sessionsShown()
	title := "Statements in flight, then idle transactions"
	if m.byTransaction {
		title = "Longest transactions"
	}
	switch {
	case m.frame != nil && m.frame.Sessions == nil:
		lines = append(lines, "The gateway does not list sessions, or not for this account.")
	case m.frame != nil && m.frame.Sessions.Dropped > 0 && !m.byTransaction:
		lines = append(lines, fmt.Sprintf("%s: %d, and %d younger ones", title, len(all), m.frame.Sessions.Dropped))
	default:
		lines = append(lines, fmt.Sprintf("%s: %d", title, len(all)))
	}
	lines = append(lines, "  "+sessionHead(m.width >= wide))
	room := max(m.height-len(lines)-footLines, 1)
	first := max(min(m.session-room+1, len(all)-room), 0)
	for i := first; i < min(first+room, len(all)); i++ {
		mark := "  "
		if i == m.session {
			mark = "> "
		}
		lines = append(lines, mark+all[i].line(m.width >= wide))
	}
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	foot := "esc back  x kill statement  X kill session  t transactions  space pause  ? help"
	if m.said != "" {
		foot = m.said
	}
	return append(lines[:max(0, min(len(lines), m.height-footLines))], foot)
}

func sessionHead(wide bool) string {
	if wide {
		return fmt.Sprintf("%8s %8s  %-20s %-12s %-21s %-10s %10s  %s", "AGE", "TRX", "STATE", "USER", "CLIENT", "SCHEMA", "ROWS", "STATEMENT")
	}
	return fmt.Sprintf("%8s %8s  %-20s %-12s  %s", "AGE", "TRX", "STATE", "USER", "STATEMENT")
}

// line describes a session.
func (s *Session) line(wide bool) string {
	seconds := func(n float64) string {
		if n == 0 {
			return "–"
		}
		return duration(time.Duration(n * float64(time.Second)))
	}
	text := marked(visible.Line(cmp.Or(s.Text, s.Digest, s.Name)), s.TextCut)
	if w := s.Waits; w != nil {
		text = "[waits for a " + w.words() + "] " + text
	}
	age := fmt.Sprintf("%8s %8s  %s %s", seconds(s.Seconds), seconds(s.Transaction), fit(s.State, 20), fit(s.User, 12))
	if wide {
		return age + fmt.Sprintf(" %s %s %10d  %s", fit(s.Client, 21), fit(s.Schema, 10), s.Rows, text)
	}
	return age + "  " + text
}

// words describes the lock and its holder.
func (b *Block) words() string {
	text := visible.Line(b.Kind) + " lock"
	if b.Table != "" {
		text += " on " + visible.Line(b.Table)
	}
	if b.Connection == 0 {
		return text + " of an unknown connection"
	}
	text = fmt.Sprintf("%s of connection %d", text, b.Connection)
	if b.User != "" {
		text += " (" + visible.Line(b.User) + ", " + strings.ReplaceAll(visible.Line(b.State), "-", " ") + ")"
	}
	return text
}
