package stack

import "testing"

func TestSampleFor(t *testing.T) {
	const path, url = "/hooks/all", "http://127.0.0.1:8082/hooks/all"
	sub := func(id, note, url string) subscription {
		s := subscription{ID: id, Description: note}
		s.Destination.URL = url
		return s
	}
	for name, c := range map[string]struct {
		have []subscription
		want string // id, "" for none
	}{
		"none":                            {nil, ""},
		"the_one_with_the_URL":            {[]subscription{sub("old", sampleNote, "http://127.0.0.1:1/hooks/all"), sub("mine", "", url)}, "mine"},
		"a_sample_of_another_port":        {[]subscription{sub("old", sampleNote, "http://127.0.0.1:1/hooks/all")}, "old"},
		"what_a_person_made_is_not_moved": {[]subscription{sub("own", "", "http://127.0.0.1:1/hooks/all")}, ""},
		"another_path_is_another_sample":  {[]subscription{sub("old", sampleNote, "http://127.0.0.1:1/hooks/lender")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := sampleFor(url, path, c.have)
			if got.ID != c.want || found != (c.want != "") {
				t.Errorf("got %q, found %t", got.ID, found)
			}
		})
	}
}
