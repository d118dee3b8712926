package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

const (
	// connPackage is the package that logs in to servers, with TLS and authentication; sessionPackage is the
	// one that opens all sessions, with their settings.
	connName       = "mysqlconn"
	connPackage    = "mysql/" + connName
	sessionPackage = "internal/mysql/session"
)

// setsSession matches a statement that changes a variable of a session.
var setsSession = regexp.MustCompile("(?i)^[`\"]SET (SESSION|LOCAL|@@)")

// otherClients are import paths of other ways to log in to servers, with their own rules on TLS and passwords.
var otherClients = regexp.MustCompile(`^"(database/sql|database/sql/driver|github\.com/go-sql-driver/mysql|github\.com/go-mysql-org/go-mysql/.*)"$`)

// dials matches functions and types that open connections.
var dials = regexp.MustCompile(`^(net|tls)\.(Dial|Dialer$)`)

// Sessions checks that only package session opens sessions to MySQL servers and changes their variables, which
// it reads back, and that no other package than mysqlconn opens connections or imports another client. The
// ledger lists other functions.
func Sessions(t *Tree, name, text string) ([]Finding, error) {
	l, err := readExceptions(name, text)
	if err != nil {
		return nil, err
	}
	findings, err := t.inspectFunctions(func(f function) (findings []Finding) {
		if strings.HasPrefix(f.file, sessionPackage+"/") {
			return nil
		}
		for n := range ast.Preorder(f.node) {
			what := ""
			switch n := n.(type) {
			case *ast.ImportSpec:
				if otherClients.MatchString(n.Path.Value) {
					what = "a client of MySQL beside package mysqlconn"
				}
			case *ast.CallExpr:
				if isName(n.Fun, connName, "Dial") || isName(n.Fun, connName, "LogIn") {
					what = "a session with the settings that the server happens to have"
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && dials.MatchString(x.Name+"."+n.Sel.Name) && !strings.HasPrefix(f.file, connPackage+"/") {
					what = "a connection that package mysqlconn does not open"
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && setsSession.MatchString(n.Value) {
					what = "a variable of a session that is not read back"
				}
			}
			if what != "" && !l.allows(f.file, f.name) {
				findings = append(findings, f.finding(n, what, "call package session, or list the function in "+name+" with the reason"))
			}
		}
		return findings
	})
	return append(findings, l.stale()...), err
}
