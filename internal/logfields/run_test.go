package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const mainEnv = "TARE_TEST_LOGFIELDS"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRun writes the files of a module, and returns an error for each that it cannot write.
func TestRun(t *testing.T) {
	want, err := generate(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	execute := func() (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Dir = append(os.Environ(), mainEnv+"=1"), dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := execute(); err == nil || !strings.HasPrefix(out, "logfields: open ") || !strings.Contains(out, docsPage) {
		t.Errorf("without the page: %q, %v", out, err)
	}
	page := filepath.Join(root, docsPage)
	if err := os.MkdirAll(filepath.Dir(page), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, want[docsPage], 0o600); err != nil {
		t.Fatal(err)
	}
	err = run(root)
	for name := range want {
		if name != docsPage && (err == nil || !strings.Contains(err.Error(), filepath.Join(root, name))) {
			t.Errorf("without a directory for %s: %v", name, err)
		}
	}
	for name := range want {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := execute(); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is another one (%v)", name, err)
		}
	}
	cut := bytes.Replace(want[docsPage], []byte("<!-- fields of "), []byte("<!-- "), 1)
	if err := os.WriteFile(page, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(root); err == nil || !strings.Contains(err.Error(), "no marks for the fields of") {
		t.Errorf("without marks: %v", err)
	}
}

// TestReplace puts a table between the marks of a kind, and needs both.
func TestReplace(t *testing.T) {
	const begin, end = "<!-- fields of a: internal/logfields/fields.txt -->\n", "<!-- end of fields -->\n"
	for page, want := range map[string]string{
		"x\n" + begin + "old\n" + end + "y\n": "x\n" + begin + "new\n" + end + "y\n",
		begin + end:                           begin + "new\n" + end,
		end + begin + end + end:               end + begin + "new\n" + end + end,
		begin:                                 "",
		end:                                   "",
		end + begin:                           "",
		"":                                    "",
	} {
		got, err := replace([]byte(page), "a", []byte("new\n"))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", page, got, err, want)
		}
	}
}

// TestFields has the code, the format and the documentation of each kind of field.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		f                           field
		condition, write, own, form string
	}{
		{field{name: "a_b", typ: "string", value: "v", when: "set"}, `v != ""`, `l.String("a_b", v)`, "l.stringAt(&keyAB, v)", "text"},
		{field{name: "a", typ: "bytes", value: "v", when: "set"}, "len(v) != 0", `l.Bytes("a", v)`, `l.Bytes("a", v)`, "text"},
		{field{name: "a", typ: "sql", value: "v", when: "set redact"}, "len(v) != 0 && l.Redaction != q.RedactAll", `l.SQL("a", v, 0)`, `l.SQL("a", v, 0)`, "text"},
		{field{name: "a", typ: "addr", value: "v", when: "set"}, "v.IsValid()", `l.Addr("a", v)`, "l.addrAt(&keyA, v)", "text"},
		{field{name: "a", typ: "hex", value: "v", when: "set"}, "v != ([16]byte{})", `l.Hex("a", v[:])`, "l.hexAt(&keyA, v[:])", "text"},
		{field{name: "a", typ: "bool", value: "v", when: "set"}, "v", `l.Bool("a", v)`, "l.boolAt(&keyA, v)", "text"},
		{field{name: "a", typ: "uint", value: "v", when: "set"}, "v != 0", `l.Uint("a", uint64(v))`, "l.uintAt(&keyA, uint64(v))", "number"},
		{field{name: "a", typ: "int", value: "v", when: "x > 1"}, "x > 1", `l.Int("a", int64(v))`, `l.Int("a", int64(v))`, "number"},
		{field{name: "a", typ: "uint", value: "v", unit: "bytes"}, "", `l.Uint("a", uint64(v))`, "l.uintAt(&keyA, uint64(v))", "bytes"},
		{field{name: "a", typ: "time", value: "v", when: "redact"}, "l.Redaction != q.RedactAll", `l.Time("a", v)`, "l.timeAt(&keyA, v)", "time"},
		{field{name: "a", typ: "duration", value: "v"}, "", `l.Duration("a", v)`, "l.durationAt(&keyA, v)", "duration"},
		{field{name: "a", typ: "custom", value: "f(l)"}, "", "f(l)", "f(l)", "text"},
	} {
		if got := c.f.condition("q."); got != c.condition {
			t.Errorf("%+v: condition %q, want %q", c.f, got, c.condition)
		}
		if got := c.f.write("q."); got != c.write {
			t.Errorf("%+v: %q, want %q", c.f, got, c.write)
		}
		if got := c.f.write(""); got != c.own {
			t.Errorf("%+v, in package querylog: %q, want %q", c.f, got, c.own)
		}
		if got := c.f.format(); got != c.form {
			t.Errorf("%+v: format %q, want %q", c.f, got, c.form)
		}
	}
	kinds, err := parse(strings.Join([]string{
		"", "# a comment", "[event] f.go p T r", "a | string | r.a | | | 2 A * | s | the a", "b | uint | r.b | set | x(r) | 1 B | bytes | ^", "c | | | | | | | the c", "d | bool | r.d | | - | | | ^", "e | bool | r.e | | | | | the e", "",
	}, "\n"))
	if err != nil || len(kinds) != 1 {
		t.Fatal(kinds, err)
	}
	if got, want := string(kinds[0].docs()), "- `a`, `b` (s): the a\n- `c`, `d`: the c\n- `e`: the e\n"; got != want {
		t.Errorf("docs:\n%swant\n%s", got, want)
	}
	code, err := kinds[0].code()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"package p\n", "import (\n\t\"strconv\"\n", "return querylog.StringValue(\"event\")", "case \"a\":\n\t\treturn querylog.StringValue(r.a)\n\tcase \"b\":\n\t\treturn x(r)\n\tcase \"e\":\n\t\treturn querylog.BytesValue(strconv.AppendBool(r.scratch[:0], r.e))\n\t}\n",
		"func LogFields() []string {\n\treturn []string{\n\t\t\"kind\",\n\t\t\"a\",\n\t\t\"b\",\n\t\t\"e\",\n\t}\n", "Name: \"B\", Kind: \"bytes\", Shown: false},\n\t\t{Field: \"a\", Name: \"A\", Kind: \"text\", Shown: true}", "if r.b != 0 {",
	} {
		if !strings.Contains(string(code), want) {
			t.Errorf("the code lacks %q:\n%s", want, code)
		}
	}
	if strings.Contains(string(code), "encoding/hex") {
		t.Errorf("an import that is not used:\n%s", code)
	}
	kinds[0].typ = "1"
	if _, err := kinds[0].code(); err == nil || !strings.Contains(err.Error(), " in\n// Code generated") {
		t.Errorf("code that is not Go: %v", err)
	}
}
