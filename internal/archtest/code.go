package archtest

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A ban is code that only some files may have. Its pattern is matched against the tokens of a line, without comments and with spaces
// between words only.
type ban struct {
	rule    string // name in the ledger of exceptions
	tests   bool   // it concerns tests, including packages for tests, else code that is linked into programs
	in      string // the only directories, separated by spaces; "": all
	except  string // a directory or file
	pattern *regexp.Regexp
	remedy  string
}

// bans returns the rules on single lines.
func bans() []ban {
	const (
		sessions = "call package session"
		servers  = "call httpserver.New, whose guard refuses requests of other sites"
		clock    = "wait for the event, or use testing/synctest"
		seed     = "use testseed.New or .Rand, or a constant seed"
	)
	return []ban{
		{"sleeps", false, "", "", regexp.MustCompile(`\btime\.Sleep\b`), "wait by a timer beside ctx.Done(), or say at the line's end what it polls (// polls: …)"},
		{"sleeps", true, "", "", regexp.MustCompile(`\btime\.Sleep\b`), clock + ", or say at the line's end what it polls or paces (// polls: …, // paces: …)"},
		// Layers above a connection wrap the io.EOF of a broken read, and the result would silently be cut off.
		{"ends", false, "fleet store internal/fleet internal/store", "", regexp.MustCompile(`errors\.Is\(.*,io\.EOF\)`), "use an error of the package's own for the end of data, or compare an io.Reader's error by =="},
		{"outputs", false, "cmd", "main.go", regexp.MustCompile(`\bos\.Std(out|err)\b`), "print to the writers of the command, which escape what servers chose"},
		{"servers", false, "", "internal/httpserver", regexp.MustCompile(`\bhttp\.(Server\{|(ListenAndServe|Serve)(TLS)?\()`), servers},
		{"servers", false, "", "internal/httpserver", regexp.MustCompile(`\bhttp\.(Handle|HandleFunc|NewServeMux)\(`), "return a web.Route, which declares its role"},
		{"sessions", false, "", "", regexp.MustCompile(`"(database/sql|database/sql/driver|github\.com/go-sql-driver/mysql|github\.com/go-mysql-org/go-mysql/.*)"`), sessions},
		{"sessions", false, "", "internal/mysql/session", regexp.MustCompile(`\bmysqlconn\.(Dial|LogIn)\(`), sessions},
		{"sessions", false, "", "internal/mysql/session", regexp.MustCompile("(?i)[`\"]SET (SESSION|LOCAL|@@)"), sessions + ", which reads variables back"},
		{"sessions", false, "", "mysql/mysqlconn", regexp.MustCompile(`\b(net|tls)\.Dial`), sessions},
		{"seeds", true, "", "internal/testseed", regexp.MustCompile(`(?:^|[^.\w])rand\.(U?[Ii]nt(n|N|31n?|63n?|32N?|64N?)|N|Float32|Float64|Perm|Shuffle|NormFloat64|ExpFloat64)\(`), seed},
		{"seeds", true, "", "internal/testseed", regexp.MustCompile(`([sS]eed\w* ?:?=|\.New(PCG|ChaCha8|Source)\().*\b(time\.Now|os\.Getpid)\(`), seed},
		{"durations", true, "", "", regexp.MustCompile(`\btime\.(Since|Until)\(([^()]|\([^()]*\))*\)(\.\w+\(\))?(<|>|==|!=)`), clock},
	}
}

// checkCode checks the bans, and that the panic of a goroutine fails the request that has started it instead of the process. The ledger
// has exceptions, one per line: rule, file, function, reason. A function "*" means the whole file, or the directory if the file ends
// in /.
func checkCode(t *Tree) ([]Finding, error) {
	rows, err := t.rows()
	if err != nil {
		return nil, err
	}
	exceptions := make(map[string][]string) // their words by their place
	for n, line := range t.ledger(exceptionsFile) {
		words := strings.Fields(line)
		if len(words) < 4 {
			return nil, fmt.Errorf("line %d of "+exceptionsFile+": want a rule, a file, a function and the reason", n)
		}
		exceptions[fmt.Sprintf("%s:%d", exceptionsFile, n)] = words
	}
	unused := maps.Clone(exceptions)
	var findings []Finding
	rules := bans()
	for _, f := range t.parsed {
		r := rowOf(rows, path.Dir(f.name))
		test := strings.HasSuffix(f.name, "_test.go") || r != nil && r.room.test
		if !test && !f.linked {
			continue
		}
		report := func(rule string, line int, what, remedy string) {
			allowed := false
			for place, words := range exceptions {
				file, function := words[1], words[2]
				if words[0] == rule && (file == f.name && (function == "*" || function == f.function(line)) || strings.HasSuffix(file, "/") && strings.HasPrefix(f.name, file)) {
					allowed = true
					delete(unused, place)
				}
			}
			if allowed {
				return
			}
			findings = append(findings, Finding{fmt.Sprintf("%s:%d", f.name, line), what, remedy + ", or list the function in " + exceptionsFile + " with the reason"})
		}
		lines := f.lines()
		for _, b := range rules {
			if b.tests != test || within(f.name, b.except) || b.except == path.Base(f.name) ||
				b.in != "" && !slices.ContainsFunc(strings.Fields(b.in), func(dir string) bool { return within(f.name, dir) }) || (b.rule == "sleeps" || b.rule == "durations") && f.imports("testing/synctest") || b.rule == "seeds" && !f.imports("math/rand/v2") {
				continue
			}
			for n, line := range lines {
				if m := b.pattern.FindString(line); m != "" {
					report(b.rule, n, b.rule+": "+strings.TrimSpace(m), b.remedy)
				}
			}
		}
		if !test {
			f.goroutines(report)
		}
	}
	for place, words := range unused {
		findings = append(findings, Finding{place, "nothing to allow in " + strings.Join(words[:3], " "), "remove the line"})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return strings.Compare(a.Where, b.Where) })
	return findings, nil
}

// lines returns the tokens of each line, but those that end in a comment which excuses a pause.
func (f *goFile) lines() map[int]string {
	lines := make(map[int]string)
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(f.name, -1, len(f.text))
	s.Init(file, f.text, nil, scanner.ScanComments)
	for {
		at, tok, lit := s.Scan()
		n := file.Line(at)
		switch {
		case tok == token.EOF:
			return lines
		case tok == token.COMMENT && (strings.HasPrefix(lit, "// polls: ") || strings.HasPrefix(lit, "// paces: ")):
			delete(lines, n)
		case tok == token.COMMENT, tok == token.SEMICOLON && lit == "\n":
		case tok.IsLiteral() || tok.IsKeyword():
			if text := lines[n]; text != "" && (text[len(text)-1] == '_' || unicode.IsLetter(rune(text[len(text)-1])) || unicode.IsDigit(rune(text[len(text)-1]))) {
				lines[n] += " "
			}
			lines[n] += lit
		default:
			lines[n] += tok.String()
		}
	}
}

// goroutines reports goroutines that call neither package panics nor recovered.
func (f *goFile) goroutines(report func(rule string, line int, what, remedy string)) {
	for n := range ast.Preorder(f.File) {
		var started ast.Node
		switch n := n.(type) {
		case *ast.GoStmt:
			started = n.Call.Fun
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				started = n.Args[0]
			}
		}
		if started == nil {
			continue
		}
		text := string(f.text[f.fset.Position(started.Pos()).Offset:f.fset.Position(started.End()).Offset])
		if !recovers.MatchString(text) {
			report("goroutines", f.line(n.Pos()), "a goroutine whose panic ends the process", "call panics.Guard in it")
		}
	}
}

var recovers = regexp.MustCompile(`(?s)^func\(.*\b(panics\.(Guard|Recovered)|recovered)\b`)
