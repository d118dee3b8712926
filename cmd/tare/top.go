package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/top"
)

// A topFlags is the command line of tare top.
type topFlags struct {
	at           clientFlags
	sort, filter string
	over, every  time.Duration
	limit        int
	once, json   bool
}

func newTopCommand() *cobra.Command {
	var f topFlags
	names := measureNames()
	cmd := &cobra.Command{
		Use:   "top [address]",
		Short: "Show the statements of a gateway, live",
		Long: `Show the statements of a gateway, live.

Polls the HTTP address of a tare serve and shows its statements as a table in the terminal, the
highest load first; ? shows the keys. Without a terminal it prints a table per poll, with --once
a single one, with --json each as a line of JSON.

If the gateway requires an account, use --user with --password-file or the variable
TARE_TOP_PASSWORD, or --token-file or the variable TARE_TOP_TOKEN.`,
		Example: `  tare top
  tare top db1.example:8316
  tare top --sort p99 --filter 'orders -user=backup'
  tare top --url https://db1.example:8316 --user dba --password-file ~/.tare-password --ca ca.pem
  tare top --url https://db1.example:8316 --token-file token --ca ca.pem
  tare top --once --json | jq '.statements[0].text'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.at.address(cmd, args); err != nil {
				return &usageError{err: err, try: cmd.CommandPath() + " --help"}
			}
			o, err := f.options(os.Getenv)
			if err != nil {
				return &usageError{err: err, try: cmd.CommandPath() + " --help"}
			}
			defer o.Client.Close()
			o.Stdout, o.In = cmd.OutOrStdout(), keyboard(cmd.InOrStdin(), cmd.OutOrStdout())
			if o.In != nil {
				o.Stdout = terminal(o.Stdout)
			}
			return top.Run(cmd.Context(), *o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.at.add(cmd, "gateway")
	flags.StringVar(&f.sort, "sort", names[0], "what the first statement has the most of: "+strings.Join(names, ", "))
	flags.StringVar(&f.filter, "filter", "", "`words` of the statements to show, or conditions on digest, schema, user, backend and normalized (user=app); a leading - excludes")
	flags.DurationVar(&f.over, "over", time.Minute, "`time` that rates are over")
	flags.DurationVar(&f.every, "every", 2*time.Second, "`time` between two readings")
	flags.IntVar(&f.limit, "limit", 20, "most `rows` that are printed where there is no terminal")
	flags.BoolVar(&f.once, "once", false, "print one table and end")
	flags.BoolVar(&f.json, "json", false, "print each table as a line of JSON")
	if err := cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("BUG: " + err.Error())
	}
	return cmd
}

// measureNames returns the values of --sort.
func measureNames() []string {
	var names []string
	for _, m := range top.Measures() {
		names = append(names, string(m))
	}
	return names
}

// options checks the command line.
func (f *topFlags) options(getenv func(string) string) (*top.Options, error) {
	o := &top.Options{Once: f.once, JSON: f.json, Limit: f.limit}
	var errs []error
	if slices.Contains(measureNames(), f.sort) {
		o.Model.By = top.Measure(f.sort)
	} else {
		errs = append(errs, fmt.Errorf("--sort %s: want one of %s", f.sort, strings.Join(measureNames(), ", ")))
	}
	if f.over < time.Second {
		errs = append(errs, fmt.Errorf("--over %v: want 1s or more", f.over))
	}
	if f.every < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--every %v: want 100ms or more", f.every))
	}
	if f.limit < 1 || f.limit > top.MaxRows {
		errs = append(errs, fmt.Errorf("--limit %d: want 1 to %d", f.limit, top.MaxRows))
	}
	client, err := f.at.client(getenv)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.Client = client
	o.Model.Host, o.Model.Every, o.Model.Window, o.Model.Filter = client.Host(), f.every, f.over, f.filter
	return o, nil
}

// keyboard returns the source of keys, nil unless a user is at a terminal.
func keyboard(in io.Reader, out io.Writer) *os.File {
	keys, ok := in.(*os.File)
	if !ok || !isatty.IsTerminal(keys.Fd()) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if terminal(out) == nil {
		return nil
	}
	return keys
}
