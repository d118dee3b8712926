package blocksync

import (
	"context"
	"path"
	"strings"
)

// thanosLayout lists a bucket written by Thanos components: blocks at the top, with a thanos section in their
// meta.json and marks beside it.
//
// Each sync lists the whole bucket: one page of a listing has a thousand names, so the marks and files of all
// blocks cost far fewer requests than one request per block for its mark.
type thanosLayout struct {
	oneTenant
	bucket lister
}

var _ arrangement = thanosLayout{}

func (t thanosLayout) list(ctx context.Context, _ string) (listing, error) {
	var l listing
	err := t.bucket.list(ctx, "", true, func() { l = newListing() }, func(name string) {
		dir, file, nested := strings.Cut(name, "/")
		id, ok := parseBlockID(dir)
		switch {
		case ok && nested:
			f := l.block(id)
			f.saw |= sawFiles
			f.file(file)
			if below, ok := strings.CutSuffix(file, "/"+metaName); ok {
				l.addStranger(path.Join(dir, below) + "/")
			}
		case dir == "debug" && nested: // Thanos' compactor keeps copies of meta.json there
		default:
			if base := path.Base(name); base == metaName && nested || !nested {
				at, _ := strings.CutSuffix(name, metaName)
				l.addStranger(at)
			} else if first, _, ok := strings.Cut(dir, ".tmp"); ok {
				if _, block := parseBlockID(first); block {
					l.addStranger(dir + "/")
				}
			}
			l.addForeign(name)
		}
	})
	return l, err
}
