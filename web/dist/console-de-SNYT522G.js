import{a as p,c as m,ia as o}from"./chunk-GGFIABG2.js";m(p(o,null),document.getElementById("app"));
