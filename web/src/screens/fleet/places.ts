// Where regions are: the usual names of clouds, and plain names of cities and countries.

// Latitude, longitude, then names of regions, or parts of names between hyphens.
const table = `
39,-77.5 us-east-1 us-east4 us-east5 us-east-va eastus eastus2 ash us-ash virginia iad was
40,-83 us-east-2 columbus cmh
37.4,-122 us-west-1 westus sfo sjc california
45.6,-121 us-west-2 us-west1 us-west-or westus2 hil us-hil oregon pdx portland
34,-118.2 us-west2 lax
40.8,-111.9 us-west3 slc
36.2,-115.1 us-west4 las
33.4,-112 westus3 phx
41.3,-95.9 us-central1 centralus iowa
41.9,-87.6 northcentralus ord chicago
32.8,-96.8 us-south1 southcentralus dfw dallas
33.2,-80 us-east1
40.7,-74 nyc ewr newyork
25.8,-80.2 mia miami
45.5,-73.6 ca-central-1 northamerica-northeast1 canadaeast bhs montreal yul
43.7,-79.4 northamerica-northeast2 canadacentral tor toronto yyz
51,-114 ca-west-1 calgary
20.6,-100.4 mx-central-1 northamerica-south1 mexicocentral
-23.5,-46.6 sa-east-1 southamerica-east1 brazilsouth gru saopaulo
-33.4,-70.7 southamerica-west1 scl chilecentral santiago
53.3,-6.3 eu-west-1 northeurope dublin dub
51.5,-0.1 eu-west-2 europe-west2 uksouth lon london uk lhr
48.9,2.4 eu-west-3 europe-west9 francecentral par paris cdg
50.1,8.7 eu-central-1 europe-west3 germanywestcentral fra frankfurt lim
47.4,8.5 eu-central-2 europe-west6 switzerlandnorth zrh zurich
59.3,18.1 eu-north-1 swedencentral arn sto stockholm europe-north2
45.5,9.2 eu-south-1 europe-west8 italynorth mil milan
45.1,7.7 europe-west12 turin
40.4,-3.7 eu-south-2 europe-southwest1 spaincentral mad madrid
50.4,3.8 europe-west1 belgiumcentral
52.4,4.9 europe-west4 westeurope ams amsterdam
52.5,13.4 europe-west10 germanynorth ber berlin
60.6,27.1 europe-north1
52.2,21 europe-central2 polandcentral waw warsaw
60.2,24.9 hel1 hel helsinki
49.5,11.1 nbg1 nbg nuremberg
50.5,12.4 fsn1 fsn falkenstein
51,2.1 gra gravelines
50.7,3.2 rbx roubaix
48.6,7.8 sbg strasbourg
48.1,11.6 muc munich
53.6,10 ham hamburg
48.2,16.4 vie vienna austriaeast
50.1,14.4 prg prague
59.9,10.8 norwayeast osl oslo
38.7,-9.1 lis lisbon
19.1,72.9 ap-south-1 asia-south1 westindia bom mumbai
17.4,78.5 ap-south-2 southindia hyderabad
28.6,77.2 asia-south2 del delhi
18.5,73.9 centralindia pune
1.3,103.8 ap-southeast-1 asia-southeast1 southeastasia sin sin1 sgp sg-sin singapore
-6.2,106.8 ap-southeast-3 asia-southeast2 jakarta
3.1,101.7 ap-southeast-5 malaysiawest
13.7,100.5 ap-southeast-7 bangkok
-33.9,151.2 ap-southeast-2 australia-southeast1 australiaeast syd sydney
-37.8,145 ap-southeast-4 australia-southeast2 australiasoutheast mel melbourne
-36.8,174.8 ap-southeast-6 newzealandnorth akl auckland
35.7,139.7 ap-northeast-1 asia-northeast1 japaneast nrt tyo tokyo
34.7,135.5 ap-northeast-3 asia-northeast2 japanwest osa osaka
37.6,127 ap-northeast-2 asia-northeast3 koreacentral icn seoul
22.3,114.2 ap-east-1 asia-east2 eastasia hkg hongkong
24.1,120.7 ap-east-2 asia-east1 tpe taipei
26.1,50.6 me-south-1 bahrain
24.5,54.4 me-central-1 uaenorth dxb dubai
25.3,51.5 me-central1 qatarcentral doha
32.1,34.8 il-central-1 me-west1 israelcentral tlv
-33.9,18.4 af-south-1 southafricawest cpt capetown
-26.2,28 africa-south1 southafricanorth jnb johannesburg
6.5,3.4 los lagos
-1.3,36.8 nbo nairobi
51,10 de
47,2.5 fr
54,-2 gb
40,-3.5 es
42.8,12.8 it
52.2,5.3 nl
50.8,4.5 be
46.8,8.2 ch
47.6,14.1 at
52,19.4 pl
49.8,15.5 cz
62,15 se
61,8.5 no
64,26 fi
56,9.5 dk
53.2,-8 ie
39.6,-8 pt
39,-98 us
56,-106 ca
23.6,-102.5 mx
-10,-55 br
21,78 in
36,138 jp
36.5,127.9 kr
-25,134 au
-41,174 nz
35,105 cn
-29,24 za
`;

const places = new Map(table.trim().split("\n").flatMap((line) => {
  const [at, ...names] = line.split(" ");
  const [latitude, longitude] = at!.split(",").map(Number);
  return names.map((name) => [name, [latitude!, longitude!] as const] as const);
}));

/** placeOf returns the latitude and longitude of a region; undefined when its name is not known. */
export function placeOf(region: string): readonly [latitude: number, longitude: number] | undefined {
  const name = region.toLowerCase();
  const parts = name.split(/[-_.]/);
  // The longest beginning that is known, then a city, then a country.
  for (let n = parts.length; n > 0; n--) {
    const found = places.get(parts.slice(0, n).join("-"));
    if (found && (n > 1 || parts.length === 1)) return found;
  }
  return places.get(parts.slice(1).find((p) => p.length > 2 && places.has(p)) ?? parts[0]!);
}
