// Command pack writes the packages and the container image of a release from the directories of its archives. Its output is
// a function of these directories, the version and SOURCE_DATE_EPOCH.
//
//	pack packages -version v0.1.0 -arch amd64 -root DIR -deploy DIR -out DIR
//	pack image -version v0.1.0 -root amd64=DIR -root arm64=DIR -out FILE
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "pack: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags of both commands.
type options struct {
	version string
	arch    string
	deploy  string
	out     string
	roots   map[string]string // directories of archives by architecture
	time    time.Time         // of all files
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want packages or image")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970: %w", err)
	}
	o := options{roots: make(map[string]string), time: time.Unix(seconds, 0).UTC()}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&o.arch, "arch", "", "architecture of the packages")
	flags.StringVar(&o.deploy, "deploy", "", "directory of systemd's files and of the packages' scripts")
	flags.StringVar(&o.out, "out", "", "file of the image, directory of the packages")
	flags.Func("root", "directory of an archive, for the image as ARCH=DIR", func(text string) error {
		arch, dir, ok := strings.Cut(text, "=")
		if !ok {
			arch, dir = "", text
		}
		o.roots[arch] = dir
		return nil
	})
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "packages":
		return packages(o)
	case "image":
		return image(o)
	}
	return fmt.Errorf("unknown command %q: want packages or image", args[0])
}
