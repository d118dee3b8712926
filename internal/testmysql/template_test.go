package testmysql

import (
	"strings"
	"testing"
)

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	_, err := findProgram("", "no-such-mariadbd")
	if err == nil {
		t.Fatal("found a program that does not exist")
	}
	for _, want := range []string{"no-such-mariadbd", "apt-get install mariadb-server", "dnf install mariadb-server"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestSchemaName(t *testing.T) {
	got := schemaName("TestCopy/é `quoted`;DROP#01"+strings.Repeat("x", 100), 7)
	if want := "t7_testcopy____quoted__drop_01xxxx"; !strings.HasPrefix(got, want) || len(got) > 64 {
		t.Errorf("got %q, want it to start with %q and to have at most 64 bytes", got, want)
	}
}
