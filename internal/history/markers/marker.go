package markers

import (
	"slices"
	"strings"
	"time"
)

// A Kind is the category of a Marker.
type Kind string

// Kinds that Tare records itself. Reported events have any other lower-case word.
const (
	KindDDL     Kind = "ddl"     // a schema change passed through the gateway
	KindAnalyze Kind = "analyze" // ANALYZE, OPTIMIZE or REPAIR TABLE, which change statistics, passed through
	KindSwitch  Kind = "switch"  // clients were switched to another server
	KindPause   Kind = "pause"   // clients were paused
	KindCopy    Kind = "copy"    // a copy of a table started or finished
	KindRestart Kind = "restart" // the gateway started
	KindRules   Kind = "rules"   // the rules were reloaded
	KindBackend Kind = "backend" // the server behind the gateway became unreachable, or reachable again
	KindPlan    Kind = "plan"    // the server chose another plan for a statement
	KindKill    Kind = "kill"    // an operator killed a statement or a session
	KindLock    Kind = "lock"    // sessions waited for locks of one session

	// KindEvent is the kind of a reported event that has no other.
	KindEvent Kind = "event"
)

// reserved are the kinds that clients cannot report.
var reserved = []Kind{KindDDL, KindAnalyze, KindSwitch, KindPause, KindCopy, KindRestart, KindRules, KindBackend, KindPlan, KindLock, KindKill}

// A Marker is a recorded event, such as a schema change or a reported deployment.
type Marker struct {
	ID    uint64    `json:"id"`   // increasing; unique as long as the file is kept
	Time  time.Time `json:"time"` // the start, in UTC
	End   time.Time `json:"end"`  // equals Time for an instantaneous event
	Kind  Kind      `json:"kind"`
	Title string    `json:"title"` // one line without parts of a statement

	// Text has details: for a schema change, the normalized text of the statement; for a lock, its table and the
	// normalized text of its session's last statement.
	Text    string   `json:"text,omitempty"`
	TextCut bool     `json:"text_cut,omitempty"` // Text has only the beginning of the statement
	Tables  []string `json:"tables,omitempty"`   // schema.table, of schema changes and locks

	Digest string `json:"digest,omitempty"` // the statement of a plan change
	User   string `json:"user,omitempty"`   // MySQL user, or HTTP account that reported it
	Client string `json:"client,omitempty"` // address of the MySQL client
	Link   string `json:"link,omitempty"`   // http or https, or a path of the pages
	Count  int    `json:"count,omitempty"`  // more than 1: like markers merged within a minute; Time is of the first, End of the last
}

// Statement reports whether Text and Tables are parts of a statement, which not all accounts may see.
func (m *Marker) Statement() bool { return m.SchemaChange() || m.Kind == KindLock }

// SchemaChange reports whether the marker may change the plans of statements.
func (m *Marker) SchemaChange() bool { return m.Kind == KindDDL || m.Kind == KindAnalyze }

// Textless returns the marker without parts of statements.
func (m Marker) Textless() Marker {
	if m.Statement() {
		m.Text, m.TextCut, m.Tables = "", false, nil
	}
	return m
}

// Name returns the marker in one line: its text for schema changes and locks, with an ellipsis if it is cut, otherwise the
// title.
func (m *Marker) Name() string {
	switch {
	case !m.Statement() || m.Text == "":
		return m.Title
	case m.TextCut:
		return m.Text + " …"
	}
	return m.Text
}

// By returns the user and address, such as "root from 10.0.0.7:41200"; "" if neither is known.
func (m *Marker) By() string {
	switch {
	case m.User == "":
		return m.Client
	case m.Client == "":
		return m.User
	}
	return m.User + " from " + m.Client
}

// Names reports whether the marker concerns one of the tables. Names are compared ignoring case, and a name
// without a schema matches any schema.
func (m *Marker) Names(tables []string) bool {
	return slices.ContainsFunc(m.Tables, func(of string) bool {
		return slices.ContainsFunc(tables, func(t string) bool { return sameTable(of, t) })
	})
}

func sameTable(a, b string) bool {
	schemaA, nameA := splitTable(a)
	schemaB, nameB := splitTable(b)
	anySchema := schemaA == "" || schemaB == ""
	wholeSchema := nameA == "*" || nameB == "*"
	return (anySchema || strings.EqualFold(schemaA, schemaB)) && (wholeSchema || strings.EqualFold(nameA, nameB))
}

func splitTable(t string) (schema, name string) {
	if schema, name, ok := strings.Cut(t, "."); ok {
		return schema, name
	}
	return "", t
}

// bytes returns the bytes charged for the marker: its strings, and its fixed part with the slice headers.
func (m *Marker) bytes() int64 {
	n := 256 + len(m.Kind) + len(m.Title) + len(m.Text) + len(m.Digest) + len(m.User) + len(m.Client) + len(m.Link)
	for _, t := range m.Tables {
		n += 16 + len(t)
	}
	return int64(n)
}
