import{a as p,c as m,sa as o}from"./chunk-WJ6HLTGQ.js";m(p(o,null),document.getElementById("app"));
