package archtest_test

import (
	"os"
	"testing"

	"github.com/taredb/tare/internal/archtest"
)

// tags are those that options of the product call for, and one of a dependency: go get takes files with any tag into account.
const tags = "gcs,azure,vtprotobuf"

const ledger = "internal/archtest/testdata/escape.txt"

// TestHouse checks the rules on this module.
func TestHouse(t *testing.T) {
	tree, err := archtest.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range checks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			findings, err := check(tree)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				t.Error(f)
			}
		})
	}
}

// checks returns the rules for every tree.
func checks() map[string]func(*archtest.Tree) ([]archtest.Finding, error) {
	return map[string]func(*archtest.Tree) ([]archtest.Finding, error){
		"rooms":     archtest.Rooms,
		"downloads": archtest.Downloads,
		"requirements": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.Requirements(t, tags)
		},
		"gets": func(t *archtest.Tree) ([]archtest.Finding, error) {
			if testing.Short() {
				return archtest.Gets(t, tags, 9)
			}
			return archtest.Gets(t, tags, 1)
		},
		"sizes":  archtest.Sizes,
		"format": archtest.Formats,
		"crowds": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/crowds.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Crowds(t, "internal/archtest/testdata/crowds.txt", string(text))
		},
		"names":   archtest.Names,
		"docs":    archtest.Docs,
		"inits":   archtest.Inits,
		"globals": archtest.Globals,
		"sleeps":  archtest.Sleeps,
		"ends":    archtest.Ends,
		"waits": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.Waits(t, "internal/testwait")
		},
		"seeds": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.Seeds(t, "internal/testseed")
		},
		"durations": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/durations.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Durations(t, "internal/archtest/testdata/durations.txt", string(text))
		},
		"servers": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/servers.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Servers(t, "internal/archtest/testdata/servers.txt", string(text))
		},
		"sessions": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/sessions.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Sessions(t, "internal/archtest/testdata/sessions.txt", string(text))
		},
		"goroutines": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/goroutines.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Goroutines(t, "internal/archtest/testdata/goroutines.txt", string(text))
		},
		"module": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.StandsAlone(t, "sizegen", "1.25", "internal/subjects")
		},
		"outputs":  archtest.Outputs,
		"roads":    archtest.Roads,
		"security": archtest.Security,
		"prose":    archtest.Prose,
		"words":    archtest.Words,
		"paths": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.Paths(t, "internal/archtest/testdata")
		},
		"links": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.NotLinked(t, "github.com/dolthub/go-mysql-server", "",
				"keep the engine in cmd/tare-demo, a module of its own, and start that: linking it costs every start 0.4 s and 74 MB")
		},
		"testlinks": func(t *archtest.Tree) ([]archtest.Finding, error) {
			return archtest.NotLinked(t, "github.com/pb33f", "", "import the validator of OpenAPI in tests alone")
		},
		"escapes": func(t *archtest.Tree) ([]archtest.Finding, error) {
			text, err := os.ReadFile("testdata/escape.txt")
			if err != nil {
				return nil, err
			}
			return archtest.Escapes(t, ledger, string(text))
		},
	}
}
