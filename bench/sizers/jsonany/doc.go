// Package jsonany holds documents that encoding/json decodes into an any. Its directives are the recipe of the README of sizegen.
package jsonany
