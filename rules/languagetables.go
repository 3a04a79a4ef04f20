package rules

// Entries of the tables are separated by commas or line ends, and their words by spaces.

// replacedLanguages holds the languages for which people or programs write another code
// than BCP 47 asks for, the preferred code first: older codes, and those of ISO 639-2.
// Owners may write any code: see ParseLanguage.
const replacedLanguages = `
bo tib, cs ces cze, cy wel, da dan, de deu ger, el gre, en eng, es spa, eu baq, fa per, fil tgl tl, fr fra fre, he iw, hy arm
id in, is ice, it ita, ja jpn, jv jw, ka geo, ko kor, mi mao, mk mac, ms may, my bur, nb nob, nl nld dut, pl pol, pt por
ro mo rum, ru rus, sk slo, sq alb, sv swe, yi ji, zh zho chi
`

// replacedRegions holds the region that is meant by each code that the registry replaces,
// or that people write in its place.
const replacedRegions = `
CD ZR, DE DD, FR FX, GB UK, MM BU, TL TP, YE YD
`

// macrolanguages holds each macrolanguage of the registry, the language that is usually
// meant by it (CLDR), or a hyphen, and its other languages. Indonesian does not belong to
// Malay here, because an owner who asks for Malay does not mean it.
const macrolanguages = `
ak tw fat
ar arb aao abh abv acm acq acw acx acy adf aeb aec afb apc apd arq ars ary arz auz avl ayh ayl ayn
ar - ayp bbz pga shu ssh
ay ayr ayc
az azj azb
bal bcc bgn bgp
bik bcl bhk bln bto cts fbl lbl rbl ubl
bnc lbk ebk obk rbk vbk
bua bxr bxm bxu
chm mhr mrj
cr cwd crj crk crl crm csw
del umu unm
den xsl scs
din dik dib dip diw dks
doi dgo xnr
et ekk vro
fa pes prs
ff fuc ffm fub fue fuf fuh fui fuq fuv
gba gya bdt gbp gbq gmm gso
gn gug gnw gui gun nhd
gon gno esg wsg
grb gbo gec grj grv gry
hai hdn hax
hmn hea cqd hma hmc hmd hme hmg hmh hmi hmj hml hmm hmp hmq hms hmw hmy hmz hnj hrm huj mmr muq mww
hmn - sfm
ik esk esi
iu ike ikt
jrb - aju jye yhd yud
kg kng kwy ldi
kln spy enb eyo niq oki pko sgc tec tuy
kok gom knn
kpe xpe gkp
kr knc kby krt
ku kmr ckb sdh
kv kpv koi
lah pnb hnd hno jat phr skr xhe
luy bxk ida lkb lko lks lri lrm lsm lto lts lwg nle nyd rag
lv lvs ltg
man emk mku mlq mnk msc mwk myq
mg plt bhr bjq bmm bzc msh skg tdx tkg txy xmv xmw
mn khk mvf
ms zsm bjn btj bve bvu coa dup hji jak jax kvb kvr kxd lce lcf liw max meo mfa mfb min mqg msi mui
ms - orn ors pel pse tmw urk vkk vkt xmm zlm zmi
mwr dhd mtr mve rwr swv wry
ne npi dty
no nb nn
oj ojg ciw ojb ojc ojs ojw otw
om gaz gax hae orc
or ory spv
ps pbu pbt pst
qu quz qub qud quf qug quh quk qul qup qur qus quw qux quy qva qvc qve qvh qvi qvj qvl qvm qvn qvo
qu - qvp qvs qvw qvz qwa qwc qwh qws qxa qxc qxh qxl qxn qxo qxp qxr qxt qxu qxw
raj mup bgq gda gju hoj wbr
rom rmy rmc rmf rml rmn rmo rmw
sa - cls vsn
sc src sdc sdn sro
sh sr bs cnr hr
sq als aae aat aln
sw swh swc
syr cld aii
tmh ttq taq thv thz
uz uzn uzs
yi ydd yih
za zyb zch zeh zgb zgm zgn zhd zhn zlj zln zlq zqe zyg zyj zyn zzj
zap zai zaa zab zac zad zae zaf zam zao zaq zar zas zat zav zaw zax zca zcd zoo zpa zpb zpc zpd zpe
zap - zpf zpg zph zpi zpj zpk zpl zpm zpn zpo zpp zpq zpr zps zpt zpu zpv zpw zpx zpy zpz zsr zte
zap - ztg ztl ztm ztn ztp ztq zts ztt ztu ztx zty
zh cmn cdo cjy cnp cpx csp czh czo gan hak hnm hsn luh lzh mnp nan sjc wuu yue
zza diq kiu
`

// usualScripts holds scripts with the languages that are written in them, or are in a
// region (CLDR 32). All others are in Latin letters, or rare.
const usualScripts = `
Arab ar az-IQ az-IR fa ha-CM ha-SD kk-AF kk-CN kk-IR kk-MN ks ku-LB ky-CN ms-CC ms-ID pa-PK ps sd
Arab tg-PK ug ur uz-AF bal bgn ckb doi hno lah pnb skr
Armn hy
Avst ae
Beng as bn mni
Cans cr iu
Cher chr
Cyrl ab av az-RU ba be bg ce cu cv kk kv ky mk mn os ru sr tg tt ug-KZ ug-MN uk uz-CN abq ady alt
Cyrl bua inh kbd krc kum lez mdf mhr mrj myv sah tyv udm
Deva hi mr ne sa awa bho brx gom kok mag mai raj
Ethi am ti tig
Geor ka
Grek el
Gujr gu
Guru pa
Hans zh gan hak hsn lzh nan wuu yue-CN
Hant zh-AU zh-BN zh-GB zh-GF zh-HK zh-ID zh-MO zh-MY zh-PA zh-PF zh-PH zh-SR zh-TH zh-TW zh-US zh-VN
Hant yue
Hebr he yi
Jpan ja
Khmr km
Knda kn tcy
Kore ko
Laoo lo
Latn sh ky-TR sr-ME sr-RO sr-RU sr-TR rif-NL
Mlym ml
Mong mn-CN
Mymr my
Nkoo nqo
Orya or
Sinh si
Syrc syr
Taml ta
Telu te
Tfng rif shi zgh
Thaa dv
Thai th
Tibt bo dz
Yiii ii
`

// usualRegions holds the region in which a language is usual in a script, for languages
// with several (CLDR 32).
const usualRegions = `
az-Arab IR, az-Cyrl AZ, az-Latn AZ, bs-Cyrl BA, bs-Latn BA, ha-Latn NG, kk-Arab CN, kk-Cyrl KZ
ku-Arab IQ, ku-Latn TR, ky-Arab CN, ky-Cyrl KG, ky-Latn TR, mn-Cyrl MN, mn-Mong CN, ms-Latn MY
pa-Arab PK, pa-Guru IN, sd-Arab PK, sd-Deva IN, sr-Cyrl RS, sr-Latn RS, tg-Arab PK, tg-Cyrl TJ
ug-Arab CN, ug-Cyrl KZ, uz-Arab AF, uz-Cyrl UZ, uz-Latn UZ, yue-Hans CN, yue-Hant HK, zh-Hans CN
zh-Hant TW
`
