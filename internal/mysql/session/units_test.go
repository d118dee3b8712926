package session

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestLiterals has a server read texts of all bytes as literals: it returns the texts.
func TestLiterals(t *testing.T) {
	c := dialed(t, testmysql.Shared(t).Server, testmysql.AppUser)
	rnd := testseed.Rand(t)
	texts := []string{"", "plain text", "~ ", "it's", `a\b`, "é", "\x00"}
	for b := range 256 {
		texts = append(texts, string([]byte{byte(b)}), "a"+string([]byte{byte(b), byte(rnd.IntN(256))}))
	}
	for at := 0; at < len(texts); at += 64 {
		some := texts[at:min(at+64, len(texts))]
		var read []string
		for _, text := range some {
			read = append(read, "HEX("+Literal(text)+")", "HEX("+string(AppendLiteral([]byte(" "), []byte(text)))+")")
		}
		if _, err := c.Query(t.Context(), "SELECT "+strings.Join(read, ", "), func(row mysqlwire.TextRow) error {
			for i := range row {
				if got, err := hex.DecodeString(string(row[i])); err != nil || string(got) != some[i/2] {
					t.Errorf("%q is read as %q", some[i/2], got)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range texts {
		plain := !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e || r == '\'' || r == '\\' })
		want := "_binary'" + text + "'"
		if !plain {
			want = "x'" + hex.EncodeToString([]byte(text)) + "'"
		}
		if got := Literal(text); got != want || IsPlain([]byte(text)) != plain {
			t.Errorf("%q: %s, plain %t", text, got, IsPlain([]byte(text)))
		}
	}
	names := []string{"a", "a`b", "`", "", "a b"}
	if got, want := Idents(names), "`a`, `a``b`, ````, ``, `a b`"; got != want || Idents(nil) != "" || Ident("a`b") != "`a``b`" {
		t.Errorf("%s, want %s", got, want)
	}
	if got := SchemaText("aü'"); got != "_utf8mb4 x'61c3bc27'" {
		t.Error(got)
	}
}

func dialed(t *testing.T, server *testmysql.Server, user string) *mysqlconn.Client {
	t.Helper()
	c, err := OpenReader(t.Context(), mysqlconn.Config{Addr: server.Addr, User: user, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestErrors classifies errors of servers.
func TestErrors(t *testing.T) {
	lost := errors.New("lost")
	for number, want := range map[mysqlwire.Errno]string{
		1044: "denied unseen lack refusal", 1142: "denied unseen lack refusal", 1227: "denied unseen lack refusal",
		1054: "unseen lack refusal", 1146: "unseen lack refusal", 1109: "unseen lack refusal", 1305: "unseen lack refusal", 1193: "unseen lack refusal variable",
		1064: "lack refusal", 1105: "refusal", 1062: "refusal", 1205: "", 1213: "",
	} {
		var got []string
		err := fmt.Errorf("x: %w", &mysqlconn.ServerError{Number: number})
		for _, is := range []struct {
			name string
			is   bool
		}{{"denied", Denied(number)}, {"unseen", IsUnseen(err)}, {"lack", mayLack(err)}, {"refusal", IsRefusal(err)}, {"variable", IsUnknownVariable(err)}} {
			if is.is {
				got = append(got, is.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d: %s, want %s", number, got, want)
		}
	}
	for _, err := range []error{nil, lost} {
		if IsUnseen(err) || mayLack(err) || IsRefusal(err) || IsUnknownVariable(err) {
			t.Errorf("%v is no refusal", err)
		}
	}
}

// TestCheckLogged judges random settings by a model: which changes in which schemas are not logged, and whether that can be known.
func TestCheckLogged(t *testing.T) {
	rnd := testseed.Rand(t)
	some := func(of ...string) (all []string) {
		for _, name := range of {
			if rnd.IntN(3) == 0 {
				all = append(all, name)
			}
		}
		return all
	}
	lost := errors.New("denied")
	seen := make(map[string]int)
	for range 5000 {
		l := Logging{On: rnd.IntN(4) > 0, updates: rnd.IntN(2) == 0, exact: rnd.IntN(2) == 0, doDB: some("a", "B"), ignoreDB: some("c", "D")}
		if rnd.IntN(3) == 0 {
			l.Channels = []Channel{{Host: "::1", Port: "3306"}, {Host: "other"}}[:1+rnd.IntN(2)]
		} else if rnd.IntN(3) == 0 {
			l.ChannelsErr = lost
		}
		if rnd.IntN(4) == 0 {
			l.filtersErr, l.doDB, l.ignoreDB = lost, nil, nil
		}
		schemas := some("a", "A", "b", "B", "c", "C", "d", "e")
		want := modelOfLogged(&l, schemas)
		seen[want]++
		err := l.CheckLogged(schemas)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.Is(err, ErrNotLogged) || errors.Is(err, ErrLogUnseen) != errors.Is(err, lost)) {
			t.Fatalf("%+v, %q: %v, want %q", l, schemas, err, want)
		}
	}
	if len(seen) < 12 {
		t.Errorf("seen: %v", seen)
	}
}

func modelOfLogged(l *Logging, schemas []string) string {
	if !l.On {
		return "log_bin is off"
	}
	if !l.updates {
		if len(l.Channels) > 0 {
			return "it is a replica (of [::1]:3306), and log_slave_updates"
		}
		if l.ChannelsErr != nil {
			return "may not see whether the server is a replica: missing privileges: denied; GRANT"
		}
	}
	if l.filtersErr != nil {
		return "may not see whether schemas are left out of it: missing privileges: denied; GRANT"
	}
	for _, s := range schemas {
		done := len(l.doDB) == 0
		for _, name := range l.doDB {
			if name == s || !l.exact && strings.EqualFold(name, s) {
				done = true
			}
		}
		if !done {
			return "only changes in the schemas " + strings.Join(l.doDB, ", ") + " are logged (binlog-do-db), and " + s + " is not one of them"
		}
		for _, name := range l.ignoreDB {
			if strings.EqualFold(name, s) {
				return "changes in the schema " + s + " are not logged (binlog-ignore-db)"
			}
		}
	}
	return ""
}

// TestIsReplica has channels that run or not, on servers that may be written to or not.
func TestIsReplica(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		for bits := range 8 {
			l := Logging{readOnly: readOnly}
			want := false
			for n := range bits % 4 {
				running := bits>>2 == 1 && n == 1
				l.Channels = append(l.Channels, Channel{running: running})
				want = want || running || readOnly
			}
			if l.IsReplica() != want {
				t.Errorf("%+v: %t", l, !want)
			}
		}
	}
}

// TestNames splits lists of names.
func TestNames(t *testing.T) {
	for list, want := range map[string]string{"": "[]", ",": "[]", "a": `["a"]`, " a , b,": `["a" "b"]`, ",a,,b c": `["a" "b c"]`} {
		if got := fmt.Sprintf("%q", splitNames([]byte(list))); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}
