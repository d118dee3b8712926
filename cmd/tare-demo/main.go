package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/internal/demo"
	"github.com/taredb/tare/cmd/internal/demo/workload"
	"github.com/taredb/tare/cmd/tare-demo/embedded"
	"github.com/taredb/tare/internal/visible"
)

// Exit codes, as in tare: 2 is left to Go's panics.
const (
	exitFailed = 1
	exitUsage  = 64
)

// errUsage marks errors of the command line.
var errUsage = errors.New("see tare-demo --help")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes a command line and returns its exit code. A server's texts have no effect on a terminal.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(visible.NewWriter(stdout))
	root.SetErr(visible.NewWriter(stderr))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(root.ErrOrStderr(), "tare-demo:", visible.Line(err.Error()))
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tare-demo",
		Short:         "the engine and the workload behind `tare demo`",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("which part? engine or workload: %w", errUsage)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w", err, errUsage)
	})
	root.AddCommand(newEngineCommand(), newWorkloadCommand())
	return root
}

func newEngineCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "serve the demo's shop from memory",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := embedded.Start(cmd.Context(), listen)
			if err != nil {
				return err
			}
			ready := demo.EngineReady{Address: engine.Addr(), Database: embedded.Database, Rows: engine.Rows()}
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(ready); err != nil {
				return errors.Join(fmt.Errorf("say that the engine is ready: %w", err), engine.Close())
			}
			<-cmd.Context().Done()
			return engine.Close()
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to serve on; port 0 is a free one")
	return cmd
}

func newWorkloadCommand() *cobra.Command {
	o := workload.Options{
		Database: embedded.Database,
		Shop:     workload.Shop{Customers: embedded.Customers, Products: embedded.Products, Orders: embedded.Orders},
	}
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "work on the demo's shop through a gateway",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return fmt.Errorf("%w: %w", err, errUsage)
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			return workload.Run(cmd.Context(), o, func(r workload.Report) error { return out.Encode(r) })
		},
	}
	cmd.Flags().StringVar(&o.Address, "address", "", "host:port of the gateway")
	cmd.Flags().IntVar(&o.Clients, "clients", 8, "how many clients work at once")
	cmd.Flags().DurationVar(&o.Deploy, "deploy-after", 0, "query in a loop from this time on; 0: never")
	cmd.Flags().DurationVar(&o.Heal, "heal-after", 0, "stop that after this time; 0: never")
	cmd.Flags().DurationVar(&o.Every, "every", time.Second, "time between two reports")
	return cmd
}

// usageArgs turns a rejection of arguments into a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%w: %w", err, errUsage)
		}
		return nil
	}
}
