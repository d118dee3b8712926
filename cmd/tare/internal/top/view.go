package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/visible"
)

// headLines and footLines are the numbers of lines above and below the table's rows.
const (
	headLines = 5
	footLines = 1
)

// wide is the minimum number of columns at which the table also has digests and rows.
const wide = 110

// room returns the number of visible rows of the table.
func (m *Model) room() int { return max(1, m.height-headLines-footLines) }

// View returns the screen: exactly its number of lines, none longer than its width.
func (m *Model) View() string {
	var lines []string
	switch m.shows {
	case showHelp:
		lines = m.text(helpLines(), "esc back  q back")
	case showStatement:
		lines = m.statement()
	case showSessions:
		lines = m.sessionsView()
	default:
		lines = m.table()
	}
	for i := range lines {
		lines[i] = cut(lines[i], m.width)
	}
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

func (m *Model) table() []string {
	lines := m.head()
	if m.frame != nil {
		lines = append(lines, m.tableHead())
		for i := m.first; i < min(m.first+m.room(), len(m.frame.Rows)); i++ {
			mark := "  "
			if i == m.cursor {
				mark = "> "
			}
			lines = append(lines, mark+m.row(&m.frame.Rows[i]))
		}
	}
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	lines = lines[:max(0, min(len(lines), m.height-footLines))]
	return append(lines, m.foot())
}

// head returns the lines about all statements.
func (m *Model) head() []string {
	f := m.frame
	if f == nil {
		what := "asking " + m.host + " …"
		if m.failure != nil {
			what = "no answer: " + oneLine(m.failure)
		}
		return []string{"tare top   " + m.host, what, "", ""}
	}
	title := fmt.Sprintf("tare top   %s   %s", m.host, f.At.Local().Format("15:04:05"))
	if m.paused {
		title += "   PAUSED"
	}
	if m.failure != nil {
		title += "   no answer: " + oneLine(m.failure)
	}
	l := f.Live
	return []string{
		title,
		joined(m.width, rate(l.PerSecond)+" statements/s", rate(perSecond(l.Errors, l.Seconds))+" errors/s", fmt.Sprint(l.Connections, " connections"),
			"p50 "+duration(micros(l.P50)), "p99 "+duration(micros(l.P99)), "p99.9 "+duration(micros(l.P999))),
		m.scope(),
		f.Event.line(),
	}
}

// line describes an event; "" for none.
func (e *Event) line() string {
	if e == nil {
		return ""
	}
	what := e.Title
	if e.Text != "" && (e.Kind == "ddl" || e.Kind == "analyze" || e.Kind == "lock") {
		what = marked(e.Text, e.Cut)
	}
	text := "event " + e.Time.Local().Format("15:04:05") + "  " + visible.Line(what)
	switch {
	case e.User != "" && e.Client != "":
		text += "  by " + visible.Line(e.User) + " from " + visible.Line(e.Client)
	case e.User != "":
		text += "  by " + visible.Line(e.User)
	}
	return text
}

// scope describes the time range and filter of the rows.
func (m *Model) scope() string {
	f := m.frame
	over := "over the last " + span(f.Over)
	if f.Average {
		over = "since " + f.since()
	}
	text := fmt.Sprintf("%d of %d statements, %s", len(f.Rows), f.Matching, over)
	if m.filter != "" {
		text += "; filter: " + visible.Line(m.filter)
	}
	return text
}

// since formats the start of the counters, with its date unless that is today.
func (f *Frame) since() string {
	since, now := f.Since.Local(), f.At.Local()
	if since.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return since.Format(time.TimeOnly)
	}
	return since.Format("2006-01-02 15:04")
}

// A column is a column of the table.
type column struct {
	by    Measure // "" if the table cannot be sorted by it
	name  string
	width int
	wide  bool // omitted on a narrow screen
	value func(*Line) string
}

var columns = []column{
	{ByLoad, "LOAD", 7, false, func(l *Line) string { return rate(l.Load) }},
	{ByCalls, "CALLS/S", 9, false, func(l *Line) string { return rate(l.Calls) }},
	{ByMean, "MEAN", 9, false, func(l *Line) string { return duration(l.Mean) }},
	{ByP99, "P99", 9, false, func(l *Line) string { return duration(l.P99) }},
	{ByErrors, "ERRS/S", 8, false, func(l *Line) string { return rate(l.Errors) }},
	{ByRows, "ROWS/S", 9, true, func(l *Line) string { return rate(l.RowRate) }},
}

// shown reports whether a column is visible.
func (m *Model) shown(c *column) bool { return !c.wide || m.width >= wide || c.by == m.by }

func (m *Model) tableHead() string {
	var b strings.Builder
	b.WriteString("  ")
	for i := range columns {
		c := &columns[i]
		if !m.shown(c) {
			continue
		}
		name := c.name
		if c.by == m.by {
			name = map[bool]string{false: "▼", true: "▲"}[m.up] + name
		}
		fmt.Fprintf(&b, "%*s ", c.width-1, name)
	}
	if m.width >= wide {
		b.WriteString(" DIGEST    SCHEMA      USER      ")
	}
	b.WriteString(" STATEMENT")
	return b.String()
}

func (m *Model) row(l *Line) string {
	var b strings.Builder
	for i := range columns {
		c := &columns[i]
		if !m.shown(c) {
			continue
		}
		value := "–"
		if l.Known {
			value = c.value(l)
		}
		fmt.Fprintf(&b, "%*s ", c.width-1, value)
	}
	if m.width >= wide {
		fmt.Fprintf(&b, " %-8.8s  %s  %s", visible.Line(l.Digest), fit(l.Schema, 10), fit(l.User, 10))
	}
	return b.String() + " " + l.Change.mark() + l.title()
}

// mark is displayed before the text of a statement that changed; "" for none.
func (c *Change) mark() string {
	if text := c.text(); text != "" {
		return "[" + text + "] "
	}
	return ""
}

// text describes a change; "" for none.
func (c *Change) text() string {
	if c == nil {
		return ""
	}
	since := " since " + c.Since.Local().Format("15:04")
	switch c.Kind {
	case "new":
		return "new" + since
	case "heavier":
		return "×" + rate(c.Times) + since
	}
	return ""
}

// title returns the statement on one line.
func (l *Line) title() string {
	switch {
	case l.Text != "":
		return visible.Line(marked(l.Text, l.TextCut))
	case l.Digest == "":
		return "(no digest)"
	}
	return visible.Line(l.Digest)
}

// marked returns a text, and that it is only the beginning.
func marked(text string, cut bool) string {
	if cut {
		text += " … (cut)"
	}
	return text
}

func (m *Model) foot() string {
	if m.typing {
		return "filter: " + visible.Line(m.typed) + "▏  enter apply  esc cancel  ctrl+u clear"
	}
	return "q quit  s sort  / filter  n now  space pause  +/- time  enter whole  ? help"
}

// statement returns the whole chosen statement.
func (m *Model) statement() []string {
	i := slices.IndexFunc(m.frame.Rows, func(l Line) bool { return l.Key == m.chosen })
	if i < 0 {
		return m.text([]string{"The statement " + visible.Line(m.chosen.Digest) + " is not among those that are read any more."}, "esc back")
	}
	l := &m.frame.Rows[i]
	lines := []string{"digest    " + visible.Line(l.Digest)}
	for _, part := range [][2]string{{"schema", l.Schema}, {"user", l.User}, {"backend", l.Backend}} {
		if part[1] != "" {
			lines = append(lines, fmt.Sprintf("%-9s %s", part[0], visible.Line(part[1])))
		}
	}
	if text := l.Change.text(); text != "" {
		lines = append(lines, "change    "+text)
	}
	when := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
	lines = append(lines,
		"first     "+when(l.First), "last      "+when(l.Last), "",
		fmt.Sprintf("%-22s %s", m.overText(), l.rates()),
		fmt.Sprintf("%-22s %s", "", l.moreRates()),
		fmt.Sprintf("%-22s %d calls, %d errors", "since "+m.frame.Since.Local().Format("2006-01-02 15:04"), l.Total.Calls, l.Total.Errors))
	for _, line := range wrap(effects(&l.Total), max(20, m.width-23)) {
		lines = append(lines, fmt.Sprintf("%-22s %s", "", line))
	}
	lines = append(lines,
		fmt.Sprintf("%-22s %s in all, p50 %s, p99 %s", "", span(time.Duration(l.Total.Seconds*float64(time.Second))), duration(l.Total.P50), duration(l.Total.P99)),
		"")
	text := marked(l.Text, l.TextCut)
	if l.Text == "" {
		text = "(its text is not shown to this account)"
	}
	return m.text(append(lines, wrap(visible.Line(text), m.width)...), "esc back  up/down scroll  space pause")
}

// effects lists the effects of calls.
func effects(c *Counts) string {
	var parts []string
	for _, e := range stmtstats.Effects() {
		parts = append(parts, fmt.Sprintf("%d %s", c.Counts[e], strings.ToLower(e.Info().Title)))
	}
	return strings.Join(parts, ", ")
}

// rates describes the rates over the window.
func (l *Line) rates() string {
	if !l.Known {
		return "– (not among the statements of an earlier poll)"
	}
	return fmt.Sprintf("load %s, %s calls/s, %s a call", rate(l.Load), rate(l.Calls), duration(l.Mean))
}

// moreRates describes what rates leaves out.
func (l *Line) moreRates() string {
	if !l.Known {
		return ""
	}
	return fmt.Sprintf("p99 %s, %s errors/s, %s rows/s", duration(l.P99), rate(l.Errors), rate(l.RowRate))
}

func (m *Model) overText() string {
	if m.frame.Average {
		return "since " + m.frame.since()
	}
	return "last " + span(m.frame.Over)
}

// text returns scrollable lines.
func (m *Model) text(lines []string, foot string) []string {
	room := max(1, m.height-footLines)
	m.scroll = max(0, min(m.scroll, len(lines)-room))
	lines = lines[m.scroll:min(m.scroll+room, len(lines))]
	lines = slices.Clone(lines)
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	return append(lines[:max(0, m.height-footLines)], foot)
}

func helpLines() []string {
	return []string{
		"tare top: which statements a gateway is busy with",
		"",
		"LOAD     time of calls in each second: how many ran at once, on average",
		"CALLS/S  calls that ended in each second, over the time shown above the table",
		"MEAN     time of a call, on average, in that time",
		"P99      99 of 100 calls took at most this, in that time",
		"ERRS/S   calls that failed; ROWS/S  rows sent and changed",
		"[×6.2 since 12:28]  its load rose; [new since 12:28]  never called before",
		"",
		"up down  j k  page keys    choose a statement; enter shows it whole",
		"s S  left right            sort by the next or the previous column; r reverses",
		"/                          filter: words of the statement, or schema=, user=,",
		"                           backend=, digest= and a value; a leading - excludes",
		"+ -                        longer or shorter time",
		"n                          what runs now: statements in flight, idle transactions;",
		"                           t longest transactions; x X kill a statement or session",
		"space                      pause and go on",
		"q  esc                     quit",
	}
}

// joined joins the parts that fit on a line of this width; the last ones are dropped first.
func joined(width int, parts ...string) string {
	line := parts[0]
	for _, p := range parts[1:] {
		if longer := line + "   " + p; len([]rune(longer)) <= width {
			line = longer
		}
	}
	return line
}

func oneLine(err error) string { return visible.Line(strings.Join(strings.Fields(err.Error()), " ")) }
