package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/server"
)

// version and commit are set by -ldflags "-X main.version=… -X main.commit=…"; without
// them, Go has recorded both.
var version, commit string //nolint:gochecknoglobals // the linker writes only to variables

func thisBuild() server.Build { return server.ThisBuild(version, commit) }

// versionText is the output of tare version and tare --version.
func versionText() string {
	b := thisBuild()
	changed := ""
	if b.Modified {
		changed = ", with changes"
	}
	return fmt.Sprintf("tare %s (commit %s%s)\n%s %s\n", b.Version, cmp.Or(b.Commit, "unknown"), changed, b.Go, b.Platform)
}

// printVersion gives a command the flag --version. Cobra's own requires a template, whose methods by name keep every exported
// method in the binary.
func printVersion(root *cobra.Command) {
	show, run := root.Flags().BoolP("version", "v", false, "version for "+root.Name()), root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*show {
			return run(cmd, args)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), versionText())
		return err
	}
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
			_, err := io.WriteString(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
