package target_test

import (
	"testing"

	"waypost/controlplane/target"
)

var sink target.Target

func BenchmarkCheck(b *testing.B) {
	for name, original := range map[string]string{
		"plain":        "https://en.wikipedia.org/wiki/Uniform_Resource_Identifier?action=history&limit=50#top",
		"non-ASCII":    "https://ru.wikibooks.org/wiki/Ассемблер_в_Linux_для_программистов_C",
		"IDN":          "https://bücher.example/a/b?c=d",
		"IPv4 address": "http://8.8.8.8/a",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if sink, err = (target.Rules{}).Check(original); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
