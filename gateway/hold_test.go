package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// waiting runs a statement in the background, and returns once the session is paused with it.
func waiting(t *testing.T, p *pair, c *mysqlconn.Client, sql string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), sql)
		done <- err
	}()
	testwait.Until(t, "a session that is held with "+sql, func() bool { return p.anyIs(func(s gateway.SessionState) bool { return s.Paused }) })
	return done
}

func (r *rig) anyIs(state func(gateway.SessionState) bool) bool {
	return slices.ContainsFunc(r.SessionStates(), state)
}

// TestHoldIsOverByItself has a holder disappear: the paused commands continue after the pause's limit.
func TestHoldIsOverByItself(t *testing.T) {
	p := startPair(t, nil)
	c := p.session(t)
	token := p.mustHold(t, gateway.MaxPause)
	done := waiting(t, p, c, "INSERT INTO note (id) VALUES (1)")
	if _, _, err := p.Switch(t.Context(), "another's", switchover.Standby, false); !errors.Is(err, switchover.ErrNotPaused) {
		t.Errorf("a switch with another token: %v", err)
	}
	p.ExpirePause()
	must(t, testwait.Receive(t, "the held statement's result", done))
	if _, _, err := p.Switch(t.Context(), token, switchover.Standby, false); !errors.Is(err, switchover.ErrNotPaused) {
		t.Errorf("a switch that comes too late: %v", err)
	}
	if n := count(t, p.servers[0]); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestHoldWaitsForTransactions pauses while a transaction is open: the transaction continues to its end while
// other sessions wait; if it does not end, the pause ends without effect.
func TestHoldWaitsForTransactions(t *testing.T) {
	p := startPair(t, nil)
	open, other := p.session(t), p.session(t)
	_, err := testscript.Exec(t, open, "BEGIN")
	must(t, err)
	testwait.Until(t, "the session to wait within its transaction, and the other one for its first command", func() bool {
		return p.anyIs(func(s gateway.SessionState) bool { return s.Open }) && !p.anyIs(func(s gateway.SessionState) bool { return !s.Waiting })
	})
	_, _, err = p.Pause(t.Context(), 50*time.Millisecond)
	inside, ok := errors.AsType[*gateway.InsideError](err)
	if !ok || len(inside.Sessions) != 1 || inside.Sessions[0].User != "app" || inside.Sessions[0].Doing != "a transaction is open" {
		t.Fatalf("a hold over an open transaction: %v", err)
	}
	type held struct {
		token string
		err   error
	}
	result := make(chan held, 1)
	go func() {
		token, _, err := p.Pause(context.Background(), 20*time.Second)
		result <- held{token, err}
	}()
	testwait.Until(t, "the hold to start", func() bool { return p.Paused() })
	done := waiting(t, p, other, "INSERT INTO note (id) VALUES (2)")
	for _, sql := range []string{"INSERT INTO note (id) VALUES (1)", "COMMIT"} {
		if _, err := testscript.Exec(t, open, sql); err != nil {
			t.Fatalf("%s within a hold: %v", sql, err)
		}
	}
	h := testwait.Receive(t, "the hold's result", result)
	must(t, h.err)
	_, _, err = p.Switch(t.Context(), h.token, switchover.Standby, false)
	must(t, err)
	must(t, testwait.Receive(t, "the held statement's result", done))
	if a, b := count(t, p.servers[0]), count(t, p.servers[1]); a != 1 || b != 1 {
		t.Errorf("%d and %d rows, want the transaction's on the first side and the other on the second", a, b)
	}
}

// TestNothingMovesToABrokenStandby switches to a standby that is down, one with other defaults, one that
// lacks a table, and without an account: all sessions keep their server, and the error has the reason.
func TestNothingMovesToABrokenStandby(t *testing.T) {
	p := startPair(t, nil)
	sessions := []*mysqlconn.Client{p.session(t), p.session(t)}
	prepareOne(t, sessions[1], "SELECT body FROM note WHERE id = ?")
	from := port(t, sessions[0])
	fails := func(why string) {
		t.Helper()
		token := p.mustHold(t, gateway.MaxPause)
		done := waiting(t, p, sessions[0], "DO 1")
		if _, _, err := p.Switch(t.Context(), token, switchover.Standby, false); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %q", err, why)
		}
		must(t, testwait.Receive(t, "the held statement's result", done))
		for _, c := range sessions {
			if at := port(t, c); at != from {
				t.Errorf("a session is on port %s, want %s", at, from)
			}
		}
	}
	standby := p.servers[1]
	must(t, standby.Exec("SET GLOBAL sql_mode='ANSI'"))
	fails("sql_mode is")
	must(t, standby.Exec("SET GLOBAL sql_mode=DEFAULT", "RENAME TABLE shop.note TO shop.gone"))
	fails("shop.note' doesn't exist")
	must(t, standby.Exec("RENAME TABLE shop.gone TO shop.note", "ALTER TABLE shop.note ADD COLUMN x INT, DROP COLUMN client"))
	p.mustSwitch(t, switchover.Standby)
	p.mustSwitch(t, switchover.Backend)
	must(t, standby.Kill())
	fails("connection refused")
	must(t, standby.Restart())
	p.mustSwitch(t, switchover.Standby)
	// A standby that dies after the switch takes its sessions with it, like any backend. No statement is sent
	// again.
	must(t, standby.Kill())
	for _, c := range sessions {
		if _, err := testscript.Exec(t, c, "INSERT INTO note (id) VALUES (1)"); err == nil {
			t.Error("a statement succeeded on a server that is down")
		}
	}
	if n := count(t, p.servers[0]); n != 0 {
		t.Errorf("%d rows on the old side", n)
	}
}

// TestAccounts requires an account for each user that has a session.
func TestAccounts(t *testing.T) {
	p := startPair(t, func(o *gateway.Options) { o.Password = func(string) (string, bool) { return "", false } })
	p.session(t)
	token := p.mustHold(t, gateway.MaxPause)
	_, _, err := p.Switch(t.Context(), token, switchover.Standby, true)
	if err == nil || !strings.Contains(err.Error(), `user "app" is not in the file of accounts`) {
		t.Errorf("got %v", err)
	}
	wrong := startPair(t, func(o *gateway.Options) { o.Password = func(string) (string, bool) { return "wrong", true } })
	wrong.session(t)
	token = wrong.mustHold(t, gateway.MaxPause)
	_, _, err = wrong.Switch(t.Context(), token, switchover.Standby, true)
	if err == nil || !strings.Contains(err.Error(), "1045") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v", err)
	}
}

// TestWhileHeld has clients disconnect, arrive and be shut down during a pause.
func TestWhileHeld(t *testing.T) {
	p := startPair(t, nil)
	leaves, stays := p.session(t), p.session(t)
	token := p.mustHold(t, gateway.MaxPause)
	left := waiting(t, p, leaves, "INSERT INTO note (id) VALUES (1)")
	must(t, leaves.Conn.Close())
	if err := testwait.Receive(t, "the result of the client that hung up", left); err == nil {
		t.Error("a client that hung up was answered")
	}
	testwait.Equal(t, "one session after the other's client hung up", 1, p.Sessions)
	arrived := make(chan *mysqlconn.Client, 1)
	go func() {
		c, err := mysqlconn.Dial(context.Background(), mysqlconn.Config{Addr: p.addr, User: "app", Password: "tare-test", TLSMode: mysqlconn.TLSDisabled})
		if err != nil {
			t.Error(err)
		}
		arrived <- c
	}()
	testwait.Equal(t, "the new client's session", 2, p.Sessions)
	_, _, err := p.Switch(t.Context(), token, switchover.Standby, false)
	must(t, err)
	c := testwait.Receive(t, "the login during the hold", arrived)
	defer c.Close()
	if port(t, c) != port(t, stays) {
		t.Error("who came during the hold is on another side than who stayed")
	}
	if n := count(t, p.servers[0]) + count(t, p.servers[1]); n != 0 {
		t.Errorf("%d rows of a client that left before its statement was sent", n)
	}

	p.mustHold(t, gateway.MaxPause)
	done := waiting(t, p, stays, "INSERT INTO note (id) VALUES (2)")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if ended := p.Shutdown(ctx); ended != 0 {
		t.Errorf("%d sessions had to be ended", ended)
	}
	must(t, testwait.Receive(t, "the held statement's result", done))
	if n := count(t, p.servers[1]); n != 1 {
		t.Errorf("%d rows, want the one that waited when the shutdown came", n)
	}
	if _, _, err := p.Pause(t.Context(), time.Second); !errors.Is(err, switchover.ErrDraining) {
		t.Errorf("a hold of a gateway that shuts down: %v", err)
	}
}

// TestChangeUserAfterSwitch changes the user on the other side, whose challenge the client has never
// received.
func TestChangeUserAfterSwitch(t *testing.T) {
	p := startPair(t, nil)
	c := p.session(t)
	p.mustSwitch(t, switchover.Standby)
	must(t, logInAgain(c, "app", "tare-test", "shop"))
	if at := value(t, c, "SELECT CONCAT(CURRENT_USER(), ' ', @@port)"); !strings.HasPrefix(at, "app@") {
		t.Errorf("the user is %s", at)
	}
	p.mustSwitch(t, switchover.Backend)
	if at := value(t, c, "SELECT DATABASE()"); at != "shop" {
		t.Errorf("the schema is %s", at)
	}
}

// TestRouteAPI uses the API over HTTP as an operator, as a program, and as another site's page.
func TestRouteAPI(t *testing.T) {
	p := startPair(t, nil)
	c := p.session(t)
	srv := httptest.NewServer(p.RouteHandler())
	defer srv.Close()
	post := func(path, body string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+gateway.RoutePattern+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		if change != nil {
			change(r)
		}
		res, err := srv.Client().Do(r)
		must(t, err)
		return res.StatusCode, readAll(t, res)
	}
	for _, k := range []struct {
		name, path, body string
		change           func(*http.Request)
		code             int
		want             string
	}{
		{"a form", "/hold", `for=1s`, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "application/json"},
		{"too long", "/hold", `{"for":"1h"}`, nil, 400, "want a duration up to 30s"},
		{"a typo", "/hold", `{"fro":"1s"}`, nil, 400, "unknown field"},
		{"no hold", "/switch", `{"token":"x","to":"standby"}`, nil, 409, "no such hold"},
		{"no side", "/switch", `{"token":"x","to":"there"}`, nil, 400, "want backend or standby"},
		{"nothing to release", "/release", `{"token":"x"}`, nil, 409, "no such hold"},
	} {
		if code, body := post(k.path, k.body, k.change); code != k.code || !strings.Contains(body, k.want) {
			t.Errorf("%s: %d %s, want %d and %q", k.name, code, body, k.code, k.want)
		}
	}
	code, body := post("/hold", `{"for":"30s"}`, nil)
	if code != 200 {
		t.Fatalf("hold: %d %s", code, body)
	}
	token := between(body, `"token":"`, `"`)
	if code, body := post("/switch", `{"token":"`+token+`","to":"standby"}`, nil); code != 200 || !strings.Contains(body, `"moved":1`) {
		t.Errorf("switch: %d %s", code, body)
	}
	res, err := srv.Client().Get(srv.URL + gateway.RoutePattern)
	must(t, err)
	if body := readAll(t, res); !strings.Contains(body, `"active":"standby"`) || !strings.Contains(body, `"stage":"open"`) || !strings.Contains(body, `"pinned":[]`) {
		t.Errorf("status: %s", body)
	}
	if at := port(t, c); !strings.HasSuffix(p.servers[1].Addr, at) {
		t.Errorf("the session is on port %s", at)
	}
}

func readAll(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	must(t, err)
	return string(text)
}

// between returns the part of s between two texts.
func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// logInAgain changes the user on the connection as clients do: with the challenge they know, here with none.
func logInAgain(c *mysqlconn.Client, user, password, schema string) error {
	u := mysqlwire.ChangeUser{User: []byte(user), Database: []byte(schema), Charset: 45, AuthPlugin: []byte(mysqlconn.PluginNative), AuthResponse: make([]byte, 20)}
	c.Seq = 0
	if err := c.WriteMessage(u.AppendTo(nil, c.Capabilities)); err != nil {
		return err
	}
	for {
		p, err := c.ReadMessage(1 << 16)
		if err != nil {
			return err
		}
		switch p[0] {
		case mysqlwire.MarkOK:
			return nil
		case mysqlwire.MarkEOF:
			var sw mysqlwire.AuthSwitchRequest
			if err := sw.Decode(p); err != nil {
				return err
			}
			if err := c.WriteMessage(mysqlconn.ScrambleNative(password, sw.Data[:20])); err != nil {
				return err
			}
		default:
			return fmt.Errorf("change user: %q", p)
		}
	}
}

// TestHoldWithoutStandby pauses the clients of a gateway with one server.
func TestHoldWithoutStandby(t *testing.T) {
	p := startPair(t, func(o *gateway.Options) { o.Standby = nil })
	c := p.session(t)
	token := p.mustHold(t, gateway.MaxPause)
	if _, _, err := p.Switch(t.Context(), token, switchover.Standby, false); !errors.Is(err, gateway.ErrNoStandby) {
		t.Errorf("a switch: %v", err)
	}
	done := waiting(t, p, c, "INSERT INTO note (id) VALUES (1)")
	must(t, p.Release(token))
	must(t, testwait.Receive(t, "the held statement's result", done))
	if n := count(t, p.servers[0]); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
