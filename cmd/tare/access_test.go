package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/web"
)

// accountsFile writes an account of each role with and without texts, such as operator and operator-blind,
// and dba and guest, an operator with texts and a viewer without. Every password is weight.
func accountsFile(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("weight"), bcrypt.MinCost)
	must(t, err)
	var text strings.Builder
	account := func(name string, role access.Role, texts bool) {
		fmt.Fprintf(&text, "%s: {role: %s, texts: %t, password: %s}\n", name, role, texts, hash)
	}
	for _, role := range access.Roles() {
		account(role.String(), role, true)
		account(role.String()+"-blind", role, false)
	}
	account("dba", access.Operator, true)
	account("guest", access.Viewer, false)
	file := filepath.Join(t.TempDir(), "accounts.yaml")
	must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

// testGate returns a gate with the accounts of accountsFile.
func testGate(t *testing.T, log *slog.Logger) *access.Gate {
	t.Helper()
	g, err := web.NewGate("", accountsFile(t), log)
	must(t, err)
	return g
}
