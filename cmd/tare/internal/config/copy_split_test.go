package config_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestSplitReverseWindow checks that a cutover of several targets, which writes nothing back, has no --reverse-window, and that its
// printed configuration can be read again.
func TestSplitReverseWindow(t *testing.T) {
	c := config.NewCopy()
	if _, err := c.Load(config.Input{Flags: map[string]string{
		"from": "mysql://app@db1", "to-shard": "mysql://app@db2\nmysql://app@db3", "tables": "shop.a", "shard-by": "shop.a: hash(id)", "follow": "true", "cutover": "true",
	}}); err != nil {
		t.Fatal(err)
	}
	if c.Cutover.Options.Window != 0 {
		t.Errorf("the window is %v", c.Cutover.Options.Window)
	}
	var text strings.Builder
	if err := config.WriteYAML(&text, []*config.Set{c.Set()}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "# reverse-window: 0 # default; no effect with --to-shard") {
		t.Errorf("printed as\n%s", text.String())
	}
	if _, err := config.NewCopy().Load(config.Input{Flags: map[string]string{"config": file(t, text.String())}}); err != nil {
		t.Errorf("%v\n%s", err, text.String())
	}
}
