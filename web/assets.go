package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file of the pages. Its name has a hash of what is in it, so that a browser may
// keep it for ever.
type asset struct {
	path string // on the server
	kind string // its media type
	body []byte
}

// assets are all by the names of their files.
var assets = sync.OnceValue(func() map[string]asset { //nolint:gochecknoglobals // made once, never changed
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	all := make(map[string]asset, len(entries))
	for _, e := range entries {
		body, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("BUG: " + err.Error())
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		all[e.Name()] = asset{
			path: "/assets/" + strings.TrimSuffix(e.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext,
			kind: assetKind(ext), body: body,
		}
	}
	return all
})

func assetKind(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(ext)
}

// assetPath is where a page finds a file.
func assetPath(name string) string {
	a, ok := assets()[name]
	if !ok {
		panic("BUG: there is no asset " + name)
	}
	return a.path
}

// serveAsset answers /assets/. An old name is not found: its page has gone as well.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for _, a := range assets() {
		if a.path != r.URL.Path {
			continue
		}
		w.Header().Set("Content-Type", a.kind)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(a.body) // who went away needs none
		return
	}
	http.NotFound(w, r)
}
