package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestUnauthenticatedLimits has the last connection that is accepted and the first that is refused, over all and of one address.
func TestUnauthenticatedLimits(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, c := range []struct {
		max, maxPer int
		from        []netip.Addr
		refused     int // of from
		says        string
		all, of     uint64 // refusals that are counted
	}{
		{0, 0, []netip.Addr{a, a, a, b}, 0, "", 0, 0},
		{2, 0, []netip.Addr{a, b, b}, 1, "2 are not logged in yet", 1, 0},
		{0, 2, []netip.Addr{a, a, b, b, a}, 1, "2 from this address", 0, 1},
		{3, 2, []netip.Addr{a, a, a, b, b}, 2, "not logged in yet", 1, 1},
	} {
		u := unauthenticated{max: c.max, maxPer: c.maxPer}
		var m metrics
		var accepted []netip.Addr
		refused := 0
		for _, from := range c.from {
			if e := u.acquire(from, &m); e == nil {
				accepted = append(accepted, from)
			} else if refused++; e.errno != mysqlwire.ErrnoTooManyConnections || !strings.Contains(e.msg, c.says) {
				t.Errorf("%+v: %+v", c, e)
			}
		}
		if refused != c.refused || u.count() != len(accepted) || m.refusedUnauthenticated.Load() != c.all || m.refusedAddress.Load() != c.of {
			t.Errorf("%+v: %d refused, %d counted, %d and %d", c, refused, u.count(), m.refusedUnauthenticated.Load(), m.refusedAddress.Load())
		}
		for _, from := range accepted {
			u.release(from)
		}
		if u.count() != 0 || len(u.from) != 0 {
			t.Errorf("%+v: %d are counted at the end, %v", c, u.count(), u.from)
		}
	}
}

// TestUserLimits has the sessions of users counted, also when a session changes its user and when that is undone.
func TestUserLimits(t *testing.T) {
	u := userLimit{max: 2, count: make(map[string]int)}
	steps := func(want string) {
		t.Helper()
		if got := fmt.Sprint(u.count); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	}
	for i, want := range []bool{true, true, false} {
		if got := u.acquire("a"); got != want {
			t.Errorf("session %d: %t", i, got)
		}
	}
	steps("map[a:2]")
	if !u.transfer("a", "a") || !u.transfer("a", "b") {
		t.Error("a session cannot change its user")
	}
	steps("map[a:1 b:1]")
	if !u.transfer("a", "b") {
		t.Error("a session cannot change its user")
	}
	steps("map[b:2]")
	if !u.acquire("a") || u.transfer("a", "b") {
		t.Error("a third session of a user")
	}
	steps("map[a:1 b:2]")
	u.undoTransfer("a", "b") // the server refused it: it is of b again, over the limit if need be
	steps("map[b:3]")
	u.undoTransfer("b", "b")
	u.release("b")
	steps("map[b:2]")
	none := userLimit{}
	for range 3 {
		if !none.acquire("a") || !none.transfer("a", "b") {
			t.Error("refused without a limit")
		}
	}
	none.release("a")
	none.undoTransfer("a", "b")
	if len(none.count) > 0 {
		t.Errorf("counted without a limit: %v", none.count)
	}
}

// TestLogLimit has as many lines in each window as are allowed, and the number of those in between with the next one.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		var l logLimit
		lines := func(want int, suppressed string) {
			t.Helper()
			if n := strings.Count(out.String(), "\n"); n != want || strings.Contains(out.String(), "suppressed") != (suppressed != "") || !strings.Contains(out.String(), suppressed) {
				t.Errorf("%d lines, want %d with %q:\n%s", n, want, suppressed, out.String())
			}
			out.Reset()
		}
		for range logLines + 3 {
			l.log(log, "event", "n", 1)
		}
		lines(logLines, "")
		time.Sleep(logWindow - 1)
		l.log(log, "event")
		lines(0, "")
		time.Sleep(time.Nanosecond)
		for range logLines + 1 {
			l.log(log, "event", "n", 1)
		}
		lines(logLines, "suppressed=4")
		time.Sleep(logWindow)
		l.log(log, "event")
		lines(1, "suppressed=1")
		l.log(log, "event")
		lines(1, "")
	})
}

// TestBlockedUsers has a user blocked for as long as the server's refusal is repeated, and a bounded number of users.
func TestBlockedUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blockedUsers
		if b.of("a") != nil {
			t.Error("a user is blocked that was never refused")
		}
		b.add("a", "too many of a")
		if e := b.of("a"); e == nil || e.errno != mysqlwire.ErrnoUserBlocked || e.msg != "too many of a" || b.of("b") != nil {
			t.Errorf("%+v, %+v", e, b.of("b"))
		}
		time.Sleep(blockedLife - 1)
		if b.of("a") == nil {
			t.Error("a user is blocked for too short a time")
		}
		time.Sleep(time.Nanosecond)
		if b.of("a") != nil || len(b.until) != 0 {
			t.Errorf("a user is blocked for too long: %v", b.until)
		}
		for i := range maxBlocked {
			b.add(fmt.Sprint(i), "x")
		}
		if len(b.until) != maxBlocked {
			t.Errorf("%d users", len(b.until))
		}
		if b.add("one more", "x"); len(b.until) != 1 || b.of("one more") == nil {
			t.Errorf("%d users", len(b.until))
		}
	})
}

// TestBoundByFiles has the sessions that the open files suffice for, and the warning if these are fewer than the limit.
func TestBoundByFiles(t *testing.T) {
	for _, c := range []struct {
		files, connections, want int
		warns                    bool
	}{
		{reservedFiles + 10, 0, 5, false}, {reservedFiles + 11, 0, 5, false}, {reservedFiles + 12, 0, 6, false}, {10, 5, 1, false}, {10, 6, 1, true}, {0, 0, 1, false},
	} {
		var out strings.Builder
		s := &Server{opts: Options{OpenFiles: c.files, MaxConnections: c.connections, Diag: slog.New(slog.NewTextHandler(&out, nil))}}
		if s.boundByFiles(); s.maxByFiles != c.want || (out.Len() > 0) != c.warns {
			t.Errorf("%+v: %d, logged %q", c, s.maxByFiles, out.String())
		}
	}
}

// TestConnectionIDs has the id of a session that has moved, at the server that it is on, and only while it is the one that its client knows.
func TestConnectionIDs(t *testing.T) {
	ids := connIDs{moving: true}
	var a, b shown
	a.greet(7)
	a.connect(7, switchover.Backend)
	first, again := ids.take(7, &a), ids.take(7, &a)
	if !first || !again || ids.take(7, &b) || ids.attempts() != 9 {
		t.Errorf("an id is taken by two, %d attempts", ids.attempts())
	}
	moved := func(id uint64, on switchover.Side) string {
		now, ok := ids.moved(id, on)
		return fmt.Sprint(now, " ", ok)
	}
	if got := moved(7, switchover.Backend); got != "7 false" {
		t.Errorf("before it has moved: %s", got)
	}
	a.connect(0, switchover.Standby)
	if got := moved(7, switchover.Standby); got != "0 false" {
		t.Errorf("before it has another id: %s", got)
	}
	a.connect(12, switchover.Standby)
	for _, c := range []struct {
		id   uint64
		on   switchover.Side
		want string
	}{{7, switchover.Standby, "12 true"}, {7, switchover.Backend, "0 false"}, {8, switchover.Standby, "0 false"}, {12, switchover.Standby, "0 false"}, {1<<32 + 7, switchover.Standby, "0 false"}} {
		if got := moved(c.id, c.on); got != c.want {
			t.Errorf("%d at %v: %s, want %s", c.id, c.on, got, c.want)
		}
	}
	if !ids.take(12, &a) || ids.attempts() != 10 {
		t.Errorf("%d attempts", ids.attempts())
	}
	if got := moved(12, switchover.Standby); got != "0 false" {
		t.Errorf("an id that no client knows: %s", got)
	}
	ids.drop(7, &b)
	ids.remove(12, &a)
	if len(ids.of) != 0 {
		t.Errorf("%d ids remain", len(ids.of))
	}
	still := connIDs{}
	if !still.take(7, &a) || !still.take(7, &b) || len(still.of) != 0 {
		t.Error("ids are kept though no session can move")
	}
	if _, ok := still.moved(7, switchover.Standby); ok {
		t.Error("a session has moved")
	}
}

// TestKilledForms has each form of KILL, and statements that are none or more than one.
func TestKilledForms(t *testing.T) {
	var m sqldigest.Mode
	for sql, want := range map[string]string{
		"KILL 7": "7", "kill 7": "7", "KILL QUERY 12": "12", "KILL CONNECTION 12": "12", "KILL HARD CONNECTION 3": "3", "KILL SOFT QUERY ID 3": "3", "/* x */ KILL 7 ;": "7", "KILL 7;": "7",
		"KILL 7 8": "", "KILL 7; SELECT 1": "", "KILL USER 7": "", "KILL @a": "", "KILL": "", "SELECT 7": "", "": "", "KILL QUERY": "", "KILL -7": "", "KILLS 7": "", "KILL 7 +": "", "KILL 9": "9", "KILL 0": "0",
	} {
		start, end, ok := killed([]byte(sql), m)
		if got := sql[start:end]; ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t, want %q", sql, got, ok, want)
		}
	}
}

// TestSignals has the text of an error at its bound, and each character that may end a string.
func TestSignals(t *testing.T) {
	long := strings.Repeat("a", maxSignalText)
	for msg, want := range map[string]string{
		"": "", "a": "a", long: long, long + "b": long, long[1:] + "é": long[1:], long[2:] + "é": long[2:] + "é", long[2:] + "éb": long[2:] + "é", "é": "é", long[3:] + "日x": long[3:] + "日", long[2:] + "日x": long[2:],
	} {
		if got := (&clientError{msg: msg}).signalText(); got != want {
			t.Errorf("%q: %q, want %q", msg, got, want)
		}
	}
	for text, quoted := range map[string]bool{"a b~": true, " ": true, "a'": false, `a\`: false, "a\x1f": false, "a\x7f": false, "é": false, "": true} {
		e := &clientError{errno: mysqlwire.ErrnoUnknown, msg: text}
		want := fmt.Sprintf("_utf8mb4 x'%x'", text)
		if quoted {
			want = "'" + text + "'"
		}
		if got := string(e.appendSignal([]byte("x"))); got != fmt.Sprintf("xSIGNAL SQLSTATE '%s' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = %s", e.errno.State(), uint16(e.errno), want) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// TestPayloads has a piece of a text that ends a packet, begins one, or has a header within it, overwritten except for the header.
func TestPayloads(t *testing.T) {
	for _, c := range []struct {
		piece string
		in    int // bytes of the last packet
		text  string
		want  string
	}{
		{"abcdef", 6, "", "      "},
		{"abcdef", 6, "xy", "xy    "},
		{"abcdef", 9, "xy", "xy    "},
		{"abHEADcd", 2, "xyz", "xyHEADz "},
		{"abHEADcd", 2, "xyzuv", "xyHEADzu"},
		{"HEADcd", 2, "x", "HEADx "},
		{"EADcd", 2, "x", "EADx "},
		{"abHEAD", 0, "xyz", "xyHEAD"},
		{"", 0, "x", ""},
	} {
		piece := []byte(c.piece)
		first, second := payloads(piece, c.in)
		if fill(first, second, c.text); string(piece) != c.want {
			t.Errorf("%+v: %q", c, piece)
		}
	}
	for _, c := range []struct {
		seen, start, in int
		piece           string
		last            bool
		want, mark      string
		inside, blanked bool
	}{
		{20, 0, 20, strings.Repeat("a", 20), false, unparsableEnd + strings.Repeat(" ", 20-len(unparsableEnd)), unparsableEnd[:4], false, true},
		{20, 17, 20, strings.Repeat("a", 20), true, strings.Repeat("a", 17) + unparsableEnd[:3], unparsableEnd[:3], false, true},
		{20, 17, 20, strings.Repeat("a", 20), false, strings.Repeat("a", 20), "", false, false},
		{40, 10, 20, strings.Repeat("a", 20), true, unparsableEnd + strings.Repeat(" ", 20-len(unparsableEnd)), unparsableEnd[:4], true, true},
	} {
		j := &parts{seen: c.seen, start: c.start}
		piece := []byte(c.piece)
		j.blank(piece, c.in, c.last)
		if string(piece) != c.want || j.mark != c.mark || j.inside != c.inside || j.blanked != c.blanked || c.blanked && j.start != c.seen {
			t.Errorf("%+v: %q, mark %q, inside %t, blanked %t from %d", c, piece, j.mark, j.inside, j.blanked, j.start)
		}
		if !c.blanked {
			continue
		}
		j.seen += 6
		more := []byte("bcdefg")
		if j.blank(more, 6, true); string(more) != "      " || j.start != j.seen {
			t.Errorf("%+v: what follows is %q", c, more)
		}
	}
}

// TestHealth has the last outcome of a login for as long as it is of use: shorter after a failure or the loss of a connection.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var out bytes.Buffer
		s := &Server{opts: Options{Diag: slog.New(slog.NewTextHandler(&out, nil))}}
		server := &target{}
		known := func(d time.Duration) string {
			time.Sleep(d)
			err, ok := server.health.last(readyLife)
			return fmt.Sprint(ok, " ", err)
		}
		logged := func(want string) {
			t.Helper()
			if got := out.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("logged %q, want %q", got, want)
			}
			out.Reset()
		}
		if got := known(0); got != "false <nil>" {
			t.Errorf("before the first login: %s", got)
		}
		s.report(server, nil)
		logged("")
		if got := known(readyLife - 1); got != "true <nil>" {
			t.Errorf("ready: %s", got)
		}
		if got := known(1); got != "false <nil>" {
			t.Errorf("ready, too long ago: %s", got)
		}
		s.report(server, broken)
		logged("backend unreachable")
		s.report(server, broken)
		logged("")
		if got := known(unreadyLife - 1); got != "true broken" {
			t.Errorf("unreachable: %s", got)
		}
		if got := known(1); got != "false broken" {
			t.Errorf("unreachable, too long ago: %s", got)
		}
		s.report(server, nil)
		logged("backend reachable again")
		server.health.lost()
		if got := known(unreadyLife); got != "false <nil>" {
			t.Errorf("after a connection was lost: %s", got)
		}
		s.report(server, nil)
		logged("")
		if got := known(unreadyLife); got != "true <nil>" {
			t.Errorf("after the next login: %s", got)
		}
		first := &target{}
		s.report(first, broken)
		logged("backend unreachable")
	})
}

// TestAccount has the bytes of a session charged once, and their changes.
func TestAccount(t *testing.T) {
	var s Server
	var a, b account
	if a.isCurrent(5) || !a.isCurrent(5) || a.isCurrent(6) || !new(account).isCurrent(0) {
		t.Error("sizes are not compared with the last one")
	}
	for _, c := range []struct {
		of    *account
		bytes int64
		held  int64
	}{{&a, 100, 100}, {&b, 30, 130}, {&a, 40, 70}, {&a, 40, 70}, {&b, 0, 40}, {&a, 0, 0}} {
		if c.of.charge(&s.held, c.bytes); s.held.Load() != c.held {
			t.Errorf("%+v: %d bytes", c, s.held.Load())
		}
	}
}

// TestResponseLengths has the lengths of responses that each method has, and those beside them.
func TestResponseLengths(t *testing.T) {
	for plugin, valid := range map[string][]int{
		"mysql_native_password": {0, 1, challengeLen}, "client_ed25519": {signatureLen}, oldPassword: {0, 8, 9}, "caching_sha2_password": {0, 1, 5, 32, 33, 255},
	} {
		for n := range 256 {
			ok := plugin == "caching_sha2_password"
			for _, v := range valid {
				ok = ok || v == n
			}
			if !ok {
				continue // a refusal writes to the client: see the tests of logins
			}
			got, err := new(login).sized(plugin, make([]byte, n), false)
			if want := n; err != nil || len(got) != want && (plugin != "mysql_native_password" || n != 1 || len(got) != 0) {
				t.Errorf("%s, %d bytes: %d, %v", plugin, n, len(got), err)
			}
		}
	}
	for n, second := range map[int]bool{0: false, parsecLen: true} {
		if got, err := new(login).sized(mysqlconn.PluginParsec, make([]byte, n), second); err != nil || len(got) != n {
			t.Errorf("parsec, %d bytes: %d, %v", n, len(got), err)
		}
	}
}
