package config_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestSplitReverseWindow gives --reverse-window, by each kind of origin, to a cutover of several targets, which writes nothing back: only 0 is
// accepted. The printed configuration can be read again.
func TestSplitReverseWindow(t *testing.T) {
	flags := map[string]string{
		"from": "mysql://app@db1", "to-shard": "mysql://app@db2\nmysql://app@db3", "tables": "shop.a", "shard-by": "shop.a: hash(id)", "follow": "true", "cutover": "true",
	}
	load := func(name, text string, environ []string) (*config.Copy, error) {
		all := map[string]string{name: text}
		for k, v := range flags {
			all[k] = v
		}
		c := config.NewCopy()
		_, err := c.Load(config.Input{Flags: all, Environ: environ})
		return c, err
	}
	const want = " has no effect with --to-shard and --cutover"
	path := file(t, "copy:\n  reverse-window: 1h\n") // the default
	_, byFlag := load("reverse-window", "1h", nil)
	_, byEnv := load("verify", "true", []string{"TARE_REVERSE_WINDOW=5m"})
	_, byFile := load("config", path, nil)
	for label, err := range map[string]error{"--reverse-window": byFlag, "TARE_REVERSE_WINDOW": byEnv, path + ":2: reverse-window": byFile} {
		if err == nil || !strings.Contains(err.Error(), label+want) {
			t.Errorf("%s: %v", label, err)
		}
	}
	if _, err := load("reverse-window", "0", nil); err != nil {
		t.Errorf("0: %v", err)
	}
	c, err := load("verify", "true", nil)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := config.WriteYAML(&text, []*config.Set{c.Set()}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "reverse-window: 0 # default\n") {
		t.Errorf("printed as\n%s", text.String())
	}
	if _, err := load("config", file(t, text.String()), nil); err != nil {
		t.Errorf("%v\n%s", err, text.String())
	}
}
