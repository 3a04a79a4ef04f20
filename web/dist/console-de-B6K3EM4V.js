import{La as o,a as p,c as m}from"./chunk-NAJYYFTG.js";m(p(o,null),document.getElementById("app"));
