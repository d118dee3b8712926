package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed corpus.txt
var list string

func main() {
	draw := flag.Int("draw", 24, "number of types")
	seed := flag.Uint64("seed", 1, "of the draw")
	only := flag.String("only", "", "weigh the types whose names contain this text")
	flag.Parse()
	if err := run(*draw, *seed, *only); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// An entry is a line of corpus.txt.
type entry struct{ module, version, name string }

func entries(draw int, seed uint64, only string) (all []entry) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all = append(all, entry{f[0], f[1], f[2]})
		}
	}
	if only != "" {
		return slices.DeleteFunc(all, func(e entry) bool { return !strings.Contains(e.name, only) })
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	drawn := all[:min(draw, len(all))]
	for _, e := range all[len(drawn):] {
		if strings.HasPrefix(e.name, always) {
			drawn = append(drawn, e)
		}
	}
	all = drawn
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all
}

// always is weighed besides those drawn: its documents point into tokens, which hold the text of the query.
const always = "github.com/vektah/gqlparser/"

func run(draw int, seed uint64, only string) (err error) {
	tmp, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	c := corpus{dir: tmp, sizegen: filepath.Join(tmp, "sizegen")}
	if err := c.copyModule(); err != nil {
		return err
	}
	fmt.Println("| type | version | rounds | directives | random values | real values: heap | off | a node | by reflection | a node | by text |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	failed := 0
	for i, e := range entries(draw, seed, only) {
		r := c.weigh(e, filepath.Join(tmp, strconv.Itoa(i)))
		fmt.Printf("| `%s` | %s | %d | %d | %s |\n", e.name, short(e.version), r.rounds, r.directives, r.columns())
		if r.failed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of the types failed", failed)
	}
	return nil
}

// short returns a version without the time and revision of a commit.
func short(version string) string {
	version, _, _ = strings.Cut(version, "+")
	if i := strings.IndexByte(version, '-'); i > 0 {
		return version[:i]
	}
	return version
}

type corpus struct{ dir, sizegen string }

// copyModule copies sizegen as a module of its own, and builds it.
func (c *corpus) copyModule() error {
	module := filepath.Join(c.dir, "module")
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/taredb/tare/sizegen").Output()
	if err != nil {
		return fmt.Errorf("find sizegen: %w", err)
	}
	for _, part := range []string{"heapsize", "heaptest"} {
		if err := os.CopyFS(filepath.Join(module, part), os.DirFS(filepath.Join(strings.TrimSpace(string(out)), part))); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module github.com/taredb/tare/sizegen\n\ngo 1.25\n"), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-o", c.sizegen, "github.com/taredb/tare/sizegen").CombinedOutput(); err != nil {
		return fmt.Errorf("build sizegen: %w\n%s", err, out)
	}
	return nil
}

// A result is one row.
type result struct {
	rounds, directives int
	refused            string // why nothing was written
	problem            string // reported for random or real values
	random             string // by how much random values are off
	failed             bool

	accounted, heap     int64   // of real values, detached
	node, reflectedNode float64 // CPU nanoseconds for each object, by the walk and by reflection
	reflected, texts    int64   // bytes by reflection, and by the root's size and the length of the text
}

// columns returns the columns of the sizes.
func (r *result) columns() string {
	if r.refused != "" {
		return r.refused + " | | | | | | "
	}
	what := r.random
	if r.problem != "" {
		what += ", " + r.problem
	}
	if r.heap == 0 {
		return what + " | | | | | | "
	}
	return fmt.Sprintf("%s | %d | %s | %.0f ns | %s | %.0f ns | %s", what, r.heap, off(r.accounted, r.heap), r.node,
		off(r.reflected, r.heap), r.reflectedNode, off(r.texts, r.heap))
}

// note records an error of sizegen -measure, which is no failure: it is the purpose of the command.
func (r *result) note(err error, out []byte) {
	if err != nil && r.problem == "" {
		r.problem = "an error: " + refusal(string(out))
	}
}

const mostRounds = 3

// weigh generates the walk of a root that holds a value of the type, following suggestions, and measures it.
func (c *corpus) weigh(e entry, dir string) (r result) {
	fail := func(what string, out []byte) result {
		r.problem, r.failed = what+": "+lastLine(out), true
		return r
	}
	if err := c.write(e, dir); err != nil {
		return fail("error", []byte(err.Error()))
	}
	// go mod tidy would download what the tests of all these modules need.
	if out, err := command(dir, "go", "build", "-mod=mod", "."); err != nil {
		return fail("go build", out)
	}
	for {
		out, err := command(dir, c.sizegen, ".")
		tries := suggestions(string(out))
		if len(tries) == 0 {
			if err != nil {
				r.refused = "refused: " + refusal(string(out))
				return r
			}
			break
		}
		if r.rounds == mostRounds {
			return fail("suggestions are left", []byte(tries[0].text))
		}
		r.rounds++
		r.directives += len(tries)
		if err := paste(filepath.Join(dir, "root.go"), tries); err != nil {
			return fail("error", []byte(err.Error()))
		}
	}
	out, err := command(dir, c.sizegen, "-measure", ".")
	m := measured.FindStringSubmatch(string(out))
	if m == nil {
		return fail("-measure", out)
	}
	r.random = m[1] + " %"
	if low, _ := strconv.ParseFloat(m[1], 64); low < -1 { // the expression has digits only
		r.failed = true
	}
	r.note(err, out)
	if err := c.real(e, dir, &r); err != nil {
		return fail("real values", []byte(err.Error()))
	}
	if o := 100 * float64(r.accounted-r.heap) / float64(r.heap); math.Abs(o) > 1 && r.problem == "" {
		r.failed = true
	}
	return r
}

var measured = regexp.MustCompile(`\d+ bytes accounted, \d+ real, ([-+.\d]+) %`)

// refusal returns the first problem of an output, without its position.
func refusal(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if i := strings.Index(line, "m.Root"); i >= 0 && !strings.Contains(line, "warning: ") && !strings.Contains(line, "bytes accounted") {
			return line[i:]
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return line
}

// write writes the module with its root.
func (c *corpus) write(e entry, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	i := strings.LastIndexByte(e.name, '.')
	files := map[string]string{
		"go.mod": fmt.Sprintf("module example.com/m\n\ngo 1.26\n\nrequire (\n\tgithub.com/DmitriyVTitov/size %s\n\tgithub.com/taredb/tare/sizegen v0.0.0\n\t%s %s\n)\n\nreplace github.com/taredb/tare/sizegen => ../module\n", sizerVersion, e.module, e.version),
		"root.go": fmt.Sprintf("package m\n\nimport (\n\tvalue %q\n\n\t_ \"github.com/taredb/tare/sizegen/heapsize\"\n\t_ \"github.com/taredb/tare/sizegen/heaptest\"\n)\n\n//sizegen:root\ntype Root struct {\n\tName  string\n\tValue *value.%s\n}\n",
			e.name[:i], e.name[i+1:]),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd.CombinedOutput()
}

// A suggestion is a directive, for the line above one of root.go.
type suggestion struct {
	line int
	text string
}

var problemLine = regexp.MustCompile(`^root\.go:(\d+):\d+: `)

// suggestions returns the directives that an output suggests.
func suggestions(out string) (all []suggestion) {
	line := 0
	for text := range strings.Lines(out) {
		if m := problemLine.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1]) // digits, by the expression
		}
		if try, ok := strings.CutPrefix(text, "\ttry: "); ok {
			all = append(all, suggestion{line, strings.TrimSpace(try)})
		}
	}
	return all
}

var namedDirective = regexp.MustCompile(`^//sizegen:(field |types .* = )`)

// paste inserts directives: those that name their field or type at the end, others above their line.
func paste(path string, all []suggestion) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	slices.SortStableFunc(all, func(a, b suggestion) int { return b.line - a.line })
	for _, s := range all {
		if namedDirective.MatchString(s.text) {
			lines = append(lines, "", s.text)
		} else {
			lines = slices.Insert(lines, s.line-1, s.text)
		}
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(lines, "\n"))
	return os.WriteFile(path, b.Bytes(), 0o644)
}
