package querylog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A message is a template of a server's list, split at its holes.
type message struct {
	words []string
	verbs []string
}

var (
	verb  = regexp.MustCompile("%%|%`?[-+# 0]*[0-9]*(?:\\.(?:[0-9]+|\\*))?(?:ll|l|z|h)?[a-zA-Z]")
	coded = regexp.MustCompile(`^(?:MariaDB|MySQL) error code (?:MY-)?0*(\d+) \([A-Za-z0-9_]+\): (.*)$`)
)

func messageOf(server sqldigest.ServerKind, text string) message {
	var m message
	for at := verb.FindStringIndex(text); at != nil; at = verb.FindStringIndex(text) {
		words, verb := text[:at[0]], text[at[0]:at[1]]
		text = text[at[1]:]
		if server == sqldigest.ServerMariaDB && verb[1] == '`' {
			words, text = words+"`", "`"+text
		}
		m.words, m.verbs = append(m.words, words), append(m.verbs, verb)
	}
	m.words = append(m.words, text)
	return m
}

// fill puts a value into each hole except those that the number's shape marks as names or numbers.
func (m message) fill(number uint16, server sqldigest.ServerKind, value string) (text string, values int) {
	kinds := m.kinds(number, server)
	for i, words := range m.words {
		text += words
		switch {
		case i == len(m.verbs):
		case strings.HasSuffix(m.verbs[i], "d") || strings.HasSuffix(m.verbs[i], "u"):
			text += "7373"
		case i < len(kinds) && kinds[i] == 'i':
			text += "name"
		default:
			text += value
			values++
		}
	}
	return text, values
}

// kinds returns the kinds of the holes of this message's shape, "" if there is none.
func (m message) kinds(number uint16, server sqldigest.ServerKind) string {
	for all := errorShapesOf(number); all != ""; {
		shape := errorShape(all[:2+segmentSize+int(all[1])*holeSize])
		all = all[len(shape):]
		if shape[0]&(1<<server) == 0 || shape.holes() != len(m.verbs) {
			continue
		}
		kinds, same := "", true
		for i, words := range m.words {
			length, sum := shape.segment(i)
			same = same && length == len(words) && sum == segmentSum([]byte(words))
			if i > 0 {
				kinds += string(shape.kind(i))
			}
		}
		if same {
			return kinds
		}
	}
	return ""
}

// serverMessages returns the messages by server and number: those printed by each perror in the PATH, and
// TiDB's if its module has been downloaded.
func serverMessages(tb testing.TB) map[sqldigest.ServerKind]map[uint16][]message {
	tb.Helper()
	lists := make(map[sqldigest.ServerKind]map[uint16][]message)
	add := func(server sqldigest.ServerKind, number, text string) {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			tb.Fatal(err)
		}
		if lists[server] == nil {
			lists[server] = make(map[uint16][]message)
		}
		lists[server][uint16(n)] = append(lists[server][uint16(n)], messageOf(server, text))
	}
	var numbers []string
	for n := 1000; n < 10000; n++ {
		numbers = append(numbers, strconv.Itoa(n))
	}
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), filepath.Join(os.Getenv("TARE_MYSQL_DIR"), "bin")) {
		out, _ := exec.CommandContext(tb.Context(), filepath.Join(dir, "perror"), numbers...).Output() // it fails for unassigned numbers
		server := sqldigest.ServerMySQL
		if strings.Contains(string(out), "MariaDB error code") {
			server = sqldigest.ServerMariaDB
		}
		if lists[server] != nil {
			continue // a duplicate from another directory
		}
		for line := range strings.Lines(string(out)) {
			if m := coded.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
				add(server, m[1], m[2])
			}
		}
	}
	addTiDB(tb, func(number, text string) { add(sqldigest.ServerTiDB, number, text) })
	return lists
}

// addTiDB adds the messages of the package errno of TiDB's module.
func addTiDB(tb testing.TB, add func(number, text string)) {
	tb.Helper()
	cache, err := exec.CommandContext(tb.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		tb.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(cache)), "github.com", "pingcap", "tidb@*", "pkg", "errno"))
	if err != nil {
		tb.Fatal(err)
	}
	if len(dirs) == 0 {
		return
	}
	numbers := make(map[string]string)
	codes, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dirs[0], "errcode.go"), nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	ast.Inspect(codes, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.INT {
				numbers[spec.Names[0].Name] = value.Value
			}
		}
		return true
	})
	names, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dirs[0], "errname.go"), nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	ast.Inspect(names, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		name, named := pair.Key.(*ast.Ident)
		if call, ok := pair.Value.(*ast.CallExpr); ok && named && numbers[name.Name] != "" {
			if literal, ok := call.Args[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					tb.Fatal(err)
				}
				add(numbers[name.Name], text)
			}
		}
		return false
	})
}

// TestServersMessages fills the holes of the messages in the installed servers' lists: no value is shown,
// nearly all messages have a shape, and a number missing in a list is masked whole.
func TestServersMessages(t *testing.T) {
	lists := serverMessages(t)
	least := map[sqldigest.ServerKind]int{sqldigest.ServerMariaDB: 1100, sqldigest.ServerMySQL: 1900, sqldigest.ServerTiDB: 1000}
	for _, server := range []sqldigest.ServerKind{sqldigest.ServerMariaDB, sqldigest.ServerMySQL, sqldigest.ServerTiDB} {
		if lists[server] == nil {
			t.Logf("untested: the messages of %v are not on this machine", server)
			continue
		}
		shaped, messages := 0, 0
		for number := range uint16(10000) {
			of := lists[server][number]
			if len(of) == 0 && errorTemplates(number) == "" && sumOfServers(number)&(1<<server) != 0 {
				t.Errorf("%v has no message %d, but a shape", server, number)
			}
			for _, m := range of {
				messages++
				values := []string{"S3CRET;'zz' 7373", "7373", "", "S3CRET", "x.S3CRET", "' for key 'S3CRET'"}
				if errorTemplates(number) != "" {
					values = values[:3] // a name among them is shown if the template has one
				}
				for _, value := range values {
					text, values := m.fill(number, server, value)
					got := string(appendRedactedError(nil, server, number, []byte(text)))
					if strings.Contains(got, "7373") || values > 0 && value != "" && strings.Contains(got, "S3CRET") {
						t.Errorf("%v %d: %q shows %q", server, number, text, got)
					}
				}
				text, _ := m.fill(number, server, "a 'b' c")
				if got := string(appendRedactedError(nil, server, number, []byte(text))); got != "?" {
					shaped++
				}
			}
		}
		t.Logf("%v: %d messages, %d of them with a shape", server, messages, shaped)
		if shaped < least[server] || shaped < messages*98/100 {
			t.Errorf("%v: only %d of %d messages have a shape", server, shaped, messages)
		}
	}
	if got := string(appendRedactedError(nil, sqldigest.ServerMySQL, 9999, []byte("a new error"))); got != "?" {
		t.Errorf("an unknown number shows %q", got)
	}
}

// sumOfServers returns the union of the servers of a number's shapes.
func sumOfServers(number uint16) (servers byte) {
	for all := errorShapesOf(number); all != ""; all = all[2+segmentSize+int(all[1])*holeSize:] {
		servers |= all[0]
	}
	return servers
}

// TestForgedNames checks for each shape that a value followed or surrounded by a template's words does not
// turn into a name.
func TestForgedNames(t *testing.T) {
	shapes := 0
	for number := range uint16(10000) {
		for all := errorShapesOf(number); all != ""; {
			shape := errorShape(all[:2+segmentSize+int(all[1])*holeSize])
			all = all[len(shape):]
			shapes++
			if shape.holes() > maxHoles {
				t.Errorf("%d has %d holes", number, shape.holes())
			}
			value := false // after this hole
			for n := shape.holes(); n > 0; n-- {
				if shape.kind(n) == 'i' && value && n > 1 {
					t.Errorf("%d: a value follows the name at hole %d", number, n)
				}
				value = value || shape.kind(n) == 'v'
				if length, _ := shape.segment(n - 1); n > 1 && length == 0 {
					t.Errorf("%d: nothing is before hole %d", number, n)
				}
			}
		}
	}
	if shapes < 3000 {
		t.Errorf("there are %d shapes", shapes)
	}
}

// TestLastSegment finds segments as strings.LastIndex does.
func TestLastSegment(t *testing.T) {
	r := testseed.Rand(t)
	for range 20000 {
		text := make([]byte, r.IntN(30))
		for i := range text {
			text[i] = "ab"[r.IntN(2)]
		}
		words := make([]byte, 1+r.IntN(4))
		for i := range words {
			words[i] = "ab"[r.IntN(2)]
		}
		if got, want := lastSegment(text, len(words), segmentSum(words)), strings.LastIndex(string(text), string(words)); got != want {
			t.Fatalf("%q in %q: at %d, want %d", words, text, got, want)
		}
	}
}
