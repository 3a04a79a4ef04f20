import{a as p,c as m,qa as o}from"./chunk-Y7HPV6OH.js";m(p(o,null),document.getElementById("app"));
