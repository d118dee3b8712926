package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// sessionPackage is the package that opens all sessions to servers, with their settings.
const sessionPackage = "mysqlconn/session"

// setsSession matches a statement that changes a variable of a session.
var setsSession = regexp.MustCompile("(?i)^[`\"]SET (SESSION|LOCAL|@@)")

// Sessions checks that only package session opens sessions to MySQL servers and changes their variables, which
// it reads back. The ledger lists other functions.
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
			case *ast.CallExpr:
				for _, opens := range [][2]string{{"mysqlconn", "Dial"}, {"mysqlconn", "LogIn"}, {"mysql", "NewConnector"}, {"sql", "Open"}} {
					if isName(n.Fun, opens[0], opens[1]) {
						what = "a session with the settings that the server happens to have"
					}
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
