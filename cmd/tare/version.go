package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by -ldflags "-X main.version=… -X main.commit=…"; without
// them, the build information that Go records tells.
var version, commit string //nolint:gochecknoglobals // the linker writes only to variables

// A build says which program this is. Its JSON form is stable.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // built from a tree with changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if version != "" {
		b.Version = version
	}
	if commit != "" {
		b.Commit, b.Modified = commit, false
	}
	return b
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			if asJSON {
				text, err := json.Marshal(b)
				if err != nil {
					return fmt.Errorf("print the version: %w", err)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
				return err
			}
			changed := ""
			if b.Modified {
				changed = ", with changes"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "tare %s (commit %s%s)\n%s %s\n", b.Version, orUnknown(b.Commit), changed, b.Go, b.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
