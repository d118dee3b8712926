package web

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/taredb/tare/history/statements"
	"github.com/taredb/tare/mysql/sqldigest"
)

// upgraded has one statement under an older digest, and current statements under current ones.
type upgraded struct {
	*fakeStatements
	old   string
	today []string // texts
}

func (u upgraded) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := u.fakeStatements.Statement(ctx, q)
	if err == nil {
		st.Text = u.old
	}
	return st, err
}

func (u upgraded) Top(context.Context, statements.TopQuery) (*statements.Top, error) {
	top := &statements.Top{Matching: len(u.today)}
	for i, text := range u.today {
		for range 2 { // two users
			r := statements.TopRow{Text: text}
			r.Digest[0], r.Digest[15] = sqldigest.Version, byte(i)
			top.Rows = append(top.Rows, r)
		}
	}
	return top, nil
}

// TestOlderDigests expects the page of an older digest to link to the statement's current digest, found by
// its text in another spelling, also for accounts without texts; without calls in the range it gives advice.
func TestOlderDigests(t *testing.T) {
	const older, current = "17" + "0203040506070809aabbccddeeff00", "02" + "0203040506070809aabbccddeeff00"
	o, f := pageOptions()
	o.Gate = testGate(t, o.Log)
	u := upgraded{f, "INSERT INTO EVENTS (NAME, STATUS) VALUES (sleep (?), ?)", []string{
		"INSERT INTO `other` (name) VALUES (?)", "INSERT INTO events (name, status) VALUES (sleep(?), ?)", "INSERT INTO events (name, status) VALUES (sleep(?), ?) -- x",
	}}
	o.Statements = u
	h := New(o).Handler()
	link := `<a href="/query/02` + strings.Repeat("0", 28) + `01">`
	for user, name := range map[string]string{"dba": "INSERT INTO events", "guest": "digest 02"} {
		code, body := browse(t, h, "/query/"+older, user)
		if code != http.StatusOK || strings.Count(body, "Since the upgrade") != 1 || strings.Count(body, link+"<code>"+name) != 1 || strings.Count(body, `href="/query/02`) != 1 {
			t.Errorf("%s: %d without one link to the digest of today", user, code)
		}
		if user == "guest" && strings.Contains(strings.ToLower(body), "events (") {
			t.Errorf("%s sees a text", user)
		}
		if _, body = browse(t, h, "/query/"+current, user); strings.Contains(body, "Since the upgrade") {
			t.Errorf("%s: a current digest has a successor", user)
		}
	}
	u.today = u.today[:1]
	o.Statements = u
	if _, body := browse(t, New(o).Handler(), "/query/"+older, "dba"); !strings.Contains(body, "no statement of the last 7 days has its text") {
		t.Error("an older digest without a successor has no note")
	}
	code, body := browse(t, h, "/query/ff"+older[2:], "dba") // unknown to the fake
	if code != http.StatusNotFound || !strings.Contains(body, "before the upgrade") {
		t.Errorf("without calls: %d %s", code, body)
	}
}
