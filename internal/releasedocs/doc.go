// Command releasedocs copies the documents of the repository into the directory of a release's archive. Links to files that the
// archive lacks, such as source, become addresses of the repository at the release.
//
//	go run ./internal/releasedocs -version v0.1.0 -to DIR
package main
