package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A mysqlScript responds to statements: the nth response is that to the nth statement that starts with its key, the last one to all later
// ones. A response is a list of rows, whose columns are separated by |, or an error of the server. Others are OK.
type mysqlScript struct {
	mu        sync.Mutex
	responses map[string][]any
	seen      []string
}

func (s *mysqlScript) response(sql string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, sql)
	for start, list := range s.responses {
		if !strings.HasPrefix(sql, start) {
			continue
		}
		if len(list) > 1 {
			s.responses[start] = list[1:]
		}
		switch r := list[0].(type) {
		case mysqlwire.Errno:
			return testscript.Packets(1, mysqlwire.NewErr(r, []byte("refused")).AppendTo(nil))
		case []string:
			columns := 1
			if len(r) > 0 {
				columns += strings.Count(r[0], "|")
			}
			payloads := [][]byte{{byte(columns)}}
			for range columns {
				payloads = append(payloads, testscript.Column)
			}
			for _, row := range r {
				var p []byte
				for v := range strings.SplitSeq(row, "|") {
					if v == "NULL" {
						p = append(p, 0xfb)
					} else {
						p = append(append(p, byte(len(v))), v...)
					}
				}
				payloads = append(payloads, p)
			}
			return testscript.Packets(1, append(payloads, testscript.End)...)
		}
	}
	return testscript.OKPacket
}

// connect returns a client of the script.
func (s *mysqlScript) connect(t *testing.T) *mysqlconn.Client {
	t.Helper()
	addr := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if !testscript.Login(c) {
			return
		}
		for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
			if _, err := c.Write(s.response(string(p[1:]))); err != nil {
				return
			}
		}
	})
	c := testscript.MustConnect(t, addr)
	t.Cleanup(func() { _ = c.Close() }) // the script has no state
	return c
}

// TestCheckMySQL has a server refuse each statement that a handover requires: the error names the privilege.
func TestCheckMySQL(t *testing.T) {
	tables := []tabledef.Spec{{Schema: "s"}}
	check := func(responses map[string][]any) ([]string, error) {
		s := &mysqlScript{responses: responses}
		err := checkMySQL(t.Context(), s.connect(t), tables)
		return s.seen, err
	}
	statements, err := check(nil)
	if err != nil || len(statements) != 5 || !strings.Contains(statements[0], "`s`.`_tare no such table`") {
		t.Errorf("%q: %v", statements, err)
	}
	for i, privilege := range []string{"RELOAD or FLUSH_TABLES", "SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN", "PROCESS", "XA_RECOVER_ADMIN"} {
		seen, err := check(map[string][]any{statements[i]: {mysqlwire.Errno(1227)}})
		if _, ok := errors.AsType[*mysqlconn.ServerError](err); !ok || !strings.Contains(err.Error(), "("+privilege+")") || len(seen) != i+1 {
			t.Errorf("%s: %v after %d statements", privilege, err, len(seen))
		}
	}
}

// TestNonePrepared has servers with prepared transactions, and one that does not list them.
func TestNonePrepared(t *testing.T) {
	for n, want := range []error{nil, errPrepared, errPrepared} {
		s := &mysqlScript{responses: map[string][]any{"XA RECOVER": {make([]string, n)}}}
		if err := nonePrepared(t.Context(), s.connect(t)); !errors.Is(err, want) {
			t.Errorf("%d prepared: %v", n, err)
		}
	}
	s := &mysqlScript{responses: map[string][]any{"XA RECOVER": {mysqlwire.Errno(1227)}}}
	if err := nonePrepared(t.Context(), s.connect(t)); err == nil || errors.Is(err, errPrepared) {
		t.Errorf("refused: %v", err)
	}
}

// TestEndWriters has sessions that end at once, later, and never; internal transactions that are short, and a prepared one without a session.
func TestEndWriters(t *testing.T) {
	const list = "SELECT trx_mysql_thread_id"
	none, orphan := []string{}, []string{"0"}
	var all sync.WaitGroup
	lists := func(n int, of []string, more ...any) []any {
		all := make([]any, 0, n+len(more))
		for range n {
			all = append(all, of)
		}
		return append(all, more...)
	}
	for name, c := range map[string]struct {
		lists []any
		kill  any // response to KILL
		want  string
		kills string
	}{
		"none":                       {lists(1, none), nil, "", ""},
		"a session":                  {lists(1, []string{"7"}, none), nil, "", "7"},
		"sessions":                   {lists(2, []string{"7", "8"}, none), nil, "", "7 8 7 8"},
		"one that has ended":         {lists(1, []string{"7", "8"}, none), mysqlwire.Errno(errNoThread), "", "7 8"},
		"one that may not be killed": {lists(1, []string{"7", "8"}, none), mysqlwire.Errno(1095), "disconnect session 7: ", "7"},
		"an internal one":            {lists(maxOrphaned-1, orphan, none), nil, "", ""},
		"a prepared one":             {lists(maxOrphaned, orphan, none), nil, errPrepared.Error(), ""},
		"internal ones":              {slices.Concat(lists(maxOrphaned-1, orphan, []string{"9"}), lists(1, []string{"0", "8"}, none)), nil, "", "9 8"},
		"the list is refused":        {[]any{mysqlwire.Errno(1227)}, nil, "refused", ""},
	} {
		s := &mysqlScript{responses: map[string][]any{list: c.lists}}
		if c.kill != nil {
			s.responses["KILL"] = []any{c.kill}
		}
		client := s.connect(t)
		all.Go(func() { // they wait
			err := endWriters(t.Context(), client)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			var kills []string
			for _, sql := range s.seen {
				if id, ok := strings.CutPrefix(sql, "KILL "); ok {
					kills = append(kills, id)
				}
			}
			if got := strings.Join(kills, " "); got != c.kills {
				t.Errorf("%s: killed %s, want %s", name, got, c.kills)
			}
		})
	}
	testwait.Group(t, "the lists", &all)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := endWriters(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// TestKindsOfErrors recognizes deadlocks and uncertain errors within others.
func TestKindsOfErrors(t *testing.T) {
	for _, c := range []struct {
		err                 error
		deadlock, uncertain bool
	}{
		{nil, false, false},
		{errPrepared, false, false},
		{fmt.Errorf("a: %w", &mysqlconn.ServerError{Number: mysqlwire.ErrnoDeadlock}), true, false},
		{fmt.Errorf("a: %w", &mysqlconn.ServerError{Number: mysqlwire.ErrnoDeadlock + 1}), false, false},
		{fmt.Errorf("a: %w", &uncertainError{errPrepared}), false, true},
	} {
		if deadlocked(c.err) != c.deadlock || isUncertain(c.err) != c.uncertain {
			t.Errorf("%v: deadlock %t, uncertain %t", c.err, deadlocked(c.err), isUncertain(c.err))
		}
	}
}
