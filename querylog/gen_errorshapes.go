//go:build ignore

// Gen_errorshapes writes errorshapes_table.go: the shapes of the message templates of MariaDB, of MySQL and of
// TiDB, by number and server. Run it where both servers' perror are installed, MySQL's in bin/ of the
// directory that TARE_MYSQL_DIR names; TiDB's templates are read from the directory of its module that
// TARE_TIDB_SOURCE names (pkg/errno).
package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// The capacity of appendShaped.
const (
	maxHoles   = 8
	maxSegment = 499
)

// A template is a server's message for a number. masked marks the holes that the server's list documents as
// values.
type template struct {
	number uint16
	text   string
	masked []int
}

// A shape is a template in errorShape's form, without the servers.
type shape struct {
	number uint16
	body   string
}

var (
	verb     = regexp.MustCompile("%%|%(`?)[-+# 0]*[0-9]*(?:\\.(?:[0-9]+|\\*))?(?:ll|l|z|h)?([a-zA-Z])") // MariaDB has %`s, %M and %T
	position = regexp.MustCompile(`%[0-9]+\$|%\*`)

	// A name follows such words. Column names are not among them: a literal names its column in a derived
	// table, and other names (engines, character sets, users, roles) may be written as strings. An "incorrect
	// table name" may be a string, too.
	object = regexp.MustCompile("(?i)(^|[^a-z-])(table|view|database|schema|for key|foreign key|constraint|trigger|procedure|function|partition|event|savepoint|cursor|sequence|tablespace|variable|index)" +
		" ?['\"`]?$")
	noObject  = regexp.MustCompile("(?i)(json|array|user|encrypt|master|character) [a-z]+( name)? ?['\"`]?$")
	qualified = regexp.MustCompile("^['\"`]?\\.['\"`]?$")

	// Errors whose texts have values after such words: the scheme of a URN.
	valued = map[uint16]bool{3528: true}

	// Errors about columns that are named only by the words of a statement, not by literals.
	columns = map[uint16]bool{1063: true, 1072: true, 1074: true, 1101: true, 1110: true, 1143: true}
	column  = regexp.MustCompile("(?i)(^|[^a-z])column ['\"`]$")
)

func main() {
	shapes := make(map[shape]byte)
	add := func(kind sqldigest.ServerKind, templates []template, err error) {
		if err != nil {
			log.Fatalf("templates of %v: %v", kind, err)
		}
		n := 0
		for _, t := range templates {
			if body := shapeOf(kind, t); body != "" {
				shapes[shape{t.number, body}] |= 1 << kind
				n++
			}
		}
		log.Printf("%v: %d templates, %d of them with a shape", kind, len(templates), n)
	}
	templates, err := perror("perror", "MariaDB", 1000, 5000)
	add(sqldigest.ServerMariaDB, templates, err)
	templates, err = perror(filepath.Join(os.Getenv("TARE_MYSQL_DIR"), "bin", "perror"), "MySQL", 1000, 10000)
	add(sqldigest.ServerMySQL, templates, err)
	templates, err = tidb(filepath.Join(os.Getenv("TARE_TIDB_SOURCE"), "pkg", "errno"))
	add(sqldigest.ServerTiDB, templates, err)
	if err := write(shapes); err != nil {
		log.Fatal(err)
	}
}

// perror returns the messages printed by a server's perror. Messages of several lines are omitted.
func perror(program, product string, from, to int) ([]template, error) {
	line := regexp.MustCompile(`^` + product + ` error code (?:MY-)?0*(\d+) \([A-Za-z0-9_]+\): (.*)$`)
	var args []string
	for n := from; n < to; n++ {
		args = append(args, strconv.Itoa(n))
	}
	out, err := exec.Command(program, args...).Output() // it fails for unassigned numbers
	if len(out) == 0 {
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
	var templates []template
	for l := range strings.Lines(string(out)) {
		l = strings.TrimSuffix(l, "\n")
		if m := line.FindStringSubmatch(l); m != nil {
			number, err := strconv.ParseUint(m[1], 10, 16)
			if err != nil {
				return nil, err
			}
			templates = append(templates, template{number: uint16(number), text: m[2]})
		} else if !strings.HasPrefix(l, "Learn more: ") && len(templates) > 0 {
			log.Printf("%d has several lines", templates[len(templates)-1].number)
			templates = templates[:len(templates)-1]
		}
	}
	return templates, nil
}

// tidb returns the messages of the package errno of TiDB's source.
func tidb(dir string) ([]template, error) {
	numbers := make(map[string]uint16)
	codes, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "errcode.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(codes, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			if number, err := strconv.ParseUint(value.Value, 10, 16); err == nil {
				numbers[spec.Names[0].Name] = uint16(number)
			}
		}
		return true
	})
	names, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "errname.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	var templates []template
	ast.Inspect(names, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		name, ok := pair.Key.(*ast.Ident)
		message, called := pair.Value.(*ast.CallExpr)
		if !ok || !called || numbers[name.Name] == 0 {
			return true
		}
		t := template{number: numbers[name.Name]}
		for i, arg := range message.Args {
			t.add(arg, i == 0)
		}
		templates = append(templates, t)
		return false
	})
	return templates, nil
}

// add adds an argument of a message: the literals of its text, or positions of masked values.
func (t *template) add(arg ast.Expr, text bool) {
	ast.Inspect(arg, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		if text {
			part, err := strconv.Unquote(literal.Value)
			if err != nil {
				log.Fatal(err)
			}
			t.text += part
			return true
		}
		at, err := strconv.Atoi(literal.Value)
		if err != nil {
			log.Fatal(err)
		}
		t.masked = append(t.masked, at)
		return true
	})
}

// shapeOf returns a template's shape, or "" if its texts must be masked whole: it has no words, too many
// holes, or holes in another order than the values.
func shapeOf(kind sqldigest.ServerKind, t template) string {
	if position.MatchString(t.text) {
		log.Printf("%v %d is masked as a whole: %s", kind, t.number, t.text)
		return ""
	}
	segments, kinds := []string{""}, []byte(nil)
	at, argument := 0, 0
	for _, m := range verb.FindAllStringSubmatchIndex(t.text, -1) {
		words := t.text[at:m[0]]
		at = m[1]
		k := byte('v')
		if m[4] >= 0 {
			if kind == sqldigest.ServerMariaDB && m[2] < m[3] {
				words += "`"
			}
			k = holeKind(t, segments, kinds, words, t.text[m[4]], argument)
			argument++
		}
		if words == "" && len(kinds) > 0 {
			kinds[len(kinds)-1] = 'v' // adjacent to the previous hole
		} else {
			segments[len(segments)-1] += words
			segments, kinds = append(segments, ""), append(kinds, k)
		}
		if kind == sqldigest.ServerMariaDB && m[2] >= 0 && m[2] < m[3] {
			segments[len(segments)-1] = "`"
		}
	}
	segments[len(segments)-1] += t.text[at:]
	mask(segments, kinds)
	if len(kinds) > maxHoles || !strings.ContainsFunc(strings.Join(segments, ""), func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }) ||
		slices.ContainsFunc(segments, func(s string) bool { return len(s) > maxSegment }) {
		log.Printf("%v %d is masked as a whole: %s", kind, t.number, t.text)
		return ""
	}
	if os.Getenv("TARE_PRINT_NAMES") != "" && bytes.IndexByte(kinds, 'i') >= 0 {
		log.Printf("%v %d %s: %s", kind, t.number, kinds, strings.Join(segments, "%"))
	}
	body := []byte{byte(len(kinds))}
	for i, s := range segments {
		if i > 0 {
			body = append(body, kinds[i-1])
		}
		body = binary.LittleEndian.AppendUint16(body, uint16(len(s)))
		body = binary.LittleEndian.AppendUint32(body, sum(s))
	}
	return string(body)
}

// holeKind returns the kind of the hole for a verb that follows words.
func holeKind(t template, segments []string, kinds []byte, words string, verb byte, argument int) byte {
	before := segments[len(segments)-1] + words
	switch {
	case slices.Contains(t.masked, argument) || valued[t.number]:
		return 'v'
	case verb == 'd' || verb == 'u':
		return 'd'
	case verb != 's':
		return 'v'
	case object.MatchString(before) && !noObject.MatchString(before), columns[t.number] && column.MatchString(before),
		len(kinds) > 0 && kinds[len(kinds)-1] == 'i' && qualified.MatchString(before):
		return 'i'
	}
	return 'v'
}

// mask turns names into values if a later value could forge them: all except the first hole, and that one too
// if the text after it could be part of a name.
func mask(segments []string, kinds []byte) {
	last := bytes.LastIndexByte(kinds, 'v')
	for i := range kinds {
		if kinds[i] == 'i' && i < last && (i > 0 || !strings.ContainsFunc(segments[1], notOfNames)) {
			kinds[i] = 'v'
		}
	}
}

// notOfNames reports whether r occurs in no name that is shown.
func notOfNames(r rune) bool {
	return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '$' || r == '.')
}

// sum is segmentSum.
func sum(text string) uint32 {
	var sum uint64
	for i := len(text) - 1; i >= 0; i-- {
		sum = sum*0x9E3779B97F4A7C15 + uint64(text[i]) + 1
	}
	return uint32(sum * 0xD6E8FEB86659FD93 >> 32)
}

// write writes the table: for each number the offset of its shapes, and the shapes.
func write(shapes map[shape]byte) error {
	var sorted []shape
	for s := range shapes {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b shape) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.body, b.body)) })
	var index, bodies []byte
	numbers := 0
	for i, s := range sorted {
		if i == 0 || sorted[i-1].number != s.number {
			index = binary.LittleEndian.AppendUint16(index, s.number)
			index = binary.LittleEndian.AppendUint32(index, uint32(len(bodies)))
			numbers++
		}
		bodies = append(append(bodies, shapes[s]), s.body...)
	}
	index = binary.LittleEndian.AppendUint16(index, 0xFFFF)
	index = binary.LittleEndian.AppendUint32(index, uint32(len(bodies)))
	log.Printf("%d shapes of %d numbers in %d bytes", len(sorted), numbers, len(index)+len(bodies))

	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by gen_errorshapes.go from the message lists of MariaDB, MySQL and TiDB; DO NOT EDIT.\n\npackage querylog\n\n")
	fmt.Fprintf(&b, "// errorIndex has the numbers of errors and where their shapes are in errorShapes.\nconst errorIndex = \"\" +\n%s\n", quoted(index))
	fmt.Fprintf(&b, "// errorShapes has the shapes of the errors' templates; see errorShape.\nconst errorShapes = \"\" +\n%s\n", quoted(bodies))
	source, err := format.Source(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile("errorshapes_table.go", source, 0o644)
}

// quoted returns b as lines of a constant.
func quoted(b []byte) string {
	var lines []string
	for chunk := range slices.Chunk(b, 40) {
		var line strings.Builder
		for _, c := range chunk {
			if ' ' <= c && c <= '~' && c != '"' && c != '\\' {
				line.WriteByte(c)
			} else {
				fmt.Fprintf(&line, "\\x%02x", c)
			}
		}
		lines = append(lines, `"`+line.String()+`"`)
	}
	return strings.Join(lines, " +\n")
}
